"""All codewords of few places: the exact part of the weak guarantee.

A codeword on w places is a linear dependency of w rows q_c of the null-space basis Q. So w - 2 rows are projected
out and two of the others must become parallel, which shows in equal ratios of two random functionals; only
functionals are ever projected, so the work does not depend on the rank. Every set of w places is met once, with its
w - 2 first places projected out, and that makes about M**(w-1) / (w-1)! ratios.
"""

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, inverses, modulo, negative, times
from simfl.privacy.multiround.linear_code import PLACES, LinearCode

CHUNK = 2**17


def level_work(places: int, w: int) -> int:
    """Work of :func:`level`, in modular multiplications."""
    return 5 * w * comb(places, max(1, w - 1)) + 10_000 * places


def level(code: LinearCode, w: int, limit: int, accept: Callable[[NDArray[np.int64]], bool]) -> int:
    """The least weight below ``limit`` of an accepted codeword of exactly ``w`` places; ``limit`` if there is none.

    Presumes that codewords on fewer places were looked for before, with the same limit.

    Args:
        limit: in clients.
        accept: called with the places (ascending) of codewords, each lighter than the last accepted one. Chance
            makes false hits, about one in 2**32 / w! sets of places, so it has to verify.
    """
    if w == 1:
        alone = code.pivots[~code.form[:, code.free].any(axis=1)]
        return _offer(alone[:, None], code.weight[alone], limit, accept)
    functionals = code.functionals(w)
    everywhere = np.arange(len(code.weight))
    if w == 2:
        row, pair, weight = _parallel(functionals[None, 0], functionals[None, 1], everywhere, np.zeros(1, int), code)
        return _offer(pair, weight, limit, accept)
    subsets = _subsets(len(code.weight), w - 3)
    for c in range(w - 3, len(code.weight) - 2):
        after = everywhere[c + 1 :]
        smaller = subsets[: comb(c, w - 3)]
        step = max(1, CHUNK // (len(after) + w))
        projected = _project(functionals, c, code.p)
        for start in range(0, len(smaller), step):
            prefix = smaller[start : start + step]
            x, y = _eliminate(projected, prefix, after, code.p)
            row, pair, weight = _parallel(x, y, after, code.weight[prefix].sum(axis=1) + code.weight[c], code)
            light = weight < limit
            if light.any():
                row, pair, weight = row[light], pair[light], weight[light]
                places = np.column_stack([prefix[row], np.full(len(row), c), pair])
                limit = _offer(places, weight, limit, accept)
    return limit


def _offer(
    places: NDArray[np.int64], weight: NDArray[np.int64], limit: int, accept: Callable[[NDArray[np.int64]], bool]
) -> int:
    """Offers hits from the lightest on while they are under the limit; the weight of the first accepted, or limit."""
    for i in np.argsort(weight, kind="stable"):
        if weight[i] >= limit:
            break
        if accept(places[i]):
            return int(weight[i])
    return limit


def _project(functionals: Residues, c: int, p: int) -> Residues:
    """All but the last functional after row c was projected out with the help of the last."""
    pivot = functionals[-1, c]
    if pivot == 0:
        return functionals[:-1]
    factors = times(negative(functionals[:-1, c], p), np.uint64(pow(int(pivot), -1, p)), p)
    return modulo(functionals[:-1] + factors[:, None] * functionals[-1], p)


def _eliminate(
    functionals: Residues, prefix: NDArray[np.integer], after: NDArray[np.integer], p: int
) -> tuple[Residues, Residues]:
    """Two functionals of the rows ``after`` with each prefix, a row of (n, w - 3), projected out; (n, len(after))."""
    n, depth = prefix.shape
    left = functionals[:, prefix]  # (functionals, n, depth)
    right = np.broadcast_to(functionals[:, None, after], (len(functionals), n, len(after)))
    for j in range(depth):
        helper = len(functionals) - 1 - j
        factors = times(negative(left[:helper, :, j], p), inverses(left[helper, :, j], p), p)[:, :, None]
        left = modulo(left[:helper] + factors * left[helper], p)
        right = modulo(right[:helper] + factors * right[helper], p)
    return right[0], right[1]


def _parallel(
    x: Residues, y: Residues, columns: NDArray[np.int64], load: NDArray[np.int64], code: LinearCode
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Neighbouring columns of equal x / y in each row: rows (h,), pairs (h, 2), weights with the row's load (h,)."""
    ratio = times(x, inverses(y, code.p), code.p)
    flat = y == 0
    if flat.any():
        # where both vanish the column lies in the span of what was projected out: a codeword on fewer places
        ratio[flat] = np.where(x[flat] == 0, code.p + 1, code.p)
    # packing: the ratio in the high 32 bits, the column's number in the low 20, so that one sort of words brings equal
    # ratios together and still tells whose they are; columns are ordered by weight, so the first two of a run of equal
    # ratios are its lightest, and two neighbours have the same ratio iff their keys differ in the low bits only
    keys = np.sort((ratio << np.uint64(PLACES)) | columns.astype(np.uint64), axis=1)
    same_ratio = (keys[:, 1:] ^ keys[:, :-1]) < np.uint64(2**PLACES)
    if flat.any():
        same_ratio &= keys[:, 1:] >> np.uint64(PLACES) <= code.p
    row, place = np.nonzero(same_ratio)
    first, second = ((keys[row, place + shift] & np.uint64(2**PLACES - 1)).astype(np.int64) for shift in (0, 1))
    return row, np.column_stack([first, second]), load[row] + code.weight[first] + code.weight[second]


def _subsets(n: int, size: int) -> NDArray[np.integer]:
    """All subsets of {0 .. n-1} of a size, those of {0 .. c-1} first for every c, shape (comb(n, size), size)."""
    kind = np.uint8 if n < 256 else np.uint16 if n < 65536 else np.int32
    table = np.zeros((1, 0), dtype=kind)
    for k in range(1, size + 1 if n else 0):
        counts = [comb(top, k - 1) for top in range(n)]
        tops = np.repeat(np.arange(n, dtype=kind), counts)
        table = np.column_stack([np.concatenate([table[:count] for count in counts]), tops])
    return table
