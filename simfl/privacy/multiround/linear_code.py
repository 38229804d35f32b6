"""The row space as a linear code modulo a prime, over clients that vanish together merged into weighted places, and its
light codewords: those that a search finds, and all of few places."""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, echelon, inverses, matvec, modulo, negative, times
from simfl.core.types import Integers
from simfl.privacy.multiround.basis import Basis

PLACES = 20
"""Bits for the number of a place in a sort key, beside 32 of a residue; the budget keeps codes far shorter."""


@dataclass(frozen=True)
class LinearCode:
    """A code in reduced echelon form.

    Attributes:
        form: residues, shape (r, M): the generating rows.
        pivots: int64, shape (r,).
        weight: int64, shape (M,), ascending: clients merged into each place.
        classes: for each place the classes merged into it.
    """

    form: Residues
    pivots: Integers
    weight: Integers
    classes: list[Integers]
    p: int

    @property
    def free(self) -> Integers:
        """The places without a pivot, shape (k,)."""
        return np.setdiff1d(np.arange(len(self.weight)), self.pivots)

    def support(self, places: NDArray[np.integer]) -> Integers:
        """The classes behind some places."""
        return np.sort(np.concatenate([self.classes[place] for place in places]))

    def dependent(self, places: NDArray[np.integer]) -> bool:
        """Whether some codeword vanishes outside these places: their rows of the null-space basis are dependent."""
        free = self.free
        rows = (places[:, None] == free).astype(np.uint64)
        for row, place in zip(rows, places, strict=True):
            pivot_row = np.flatnonzero(self.pivots == place)
            if len(pivot_row):
                row[:] = negative(self.form[pivot_row[0], free], self.p)
        return len(echelon(rows, self.p)[1]) < len(places)

    def functionals(self, count: int) -> Residues:
        """Random combinations of the columns of the null-space basis, shape (count, M).

        Place c belongs to row q_c of the null-space basis Q; a codeword v obeys sum v_c q_c = 0. A column of the
        result holds ``count`` random linear functionals of q_c, the same ones for all c.
        """
        rng = np.random.Generator(np.random.Philox(key=self.p + count))
        free = self.free
        result = np.zeros((count, len(self.weight)), dtype=np.uint64)
        for row in result:
            row[free] = rng.integers(0, self.p, len(free), dtype=np.uint64)
            row[self.pivots] = negative(matvec(self.form[:, free], row[free], self.p), self.p)
        return result


def code_work(basis: Basis, rank: int) -> int:
    """Work of :func:`code`, in modular multiplications."""
    return rank * rank * basis.codes.shape[1]


def code(basis: Basis, rank: int, p: int) -> LinearCode:
    """The code of the first ``rank`` rows. Two columns are merged where they are proportional: then a codeword
    vanishes at both or at neither."""
    present = basis.present(rank)
    columns = basis.residues(rank, p)[:, present]
    first = columns[np.argmax(columns != 0, axis=0), np.arange(len(present))]
    scaled = times(columns, inverses(first, p), p)
    _, place, label = np.unique(scaled, axis=1, return_index=True, return_inverse=True)
    label = label.ravel()
    weight = np.bincount(label, weights=basis.size[present]).astype(np.int64)
    order = np.argsort(weight, kind="stable")
    form, pivots = echelon(columns[:, place[order]], p)
    return LinearCode(form, pivots, weight[order], [present[label == c] for c in order], p)


PAIRS_AT_ONCE = 2**19


def search_work(code: LinearCode) -> int:
    """Work of one trial of :func:`search`, in modular multiplications."""
    r, m = code.form.shape
    return 2 * r * r * m + 20 * r * r * (m - r) + 200_000


def search(code: LinearCode, limit: int, trials: int, rng: np.random.Generator) -> Integers | None:
    """The places of the lightest codeword found that weighs less than ``limit`` clients, or None.

    Echelon forms over random column orders have light rows, and so have combinations of two rows chosen to cancel as
    much as possible (Stern's idea with two rows; the second coefficient is the most frequent ratio of their entries).
    The first trial uses the code's own echelon form.
    """
    places = None
    form, pivots = code.form, code.pivots
    for trial in range(trials):
        if trial:
            form, pivots = echelon(form, code.p, rng.permutation(len(code.weight)))
        for candidate in (_rows(form, code.weight, limit), _pairs(form, pivots, code, limit)):
            if candidate is not None:
                weight = int(code.weight[candidate].sum())
                if weight < limit:
                    places, limit = candidate, weight
    return places


def _rows(form: Residues, weight: Integers, limit: int) -> Integers | None:
    """The support of the lightest row if it is lighter than the limit."""
    weights = (form != 0) @ weight
    best = int(np.argmin(weights))
    return np.flatnonzero(form[best]) if weights[best] < limit else None


def _pairs(form: Residues, pivots: Integers, code: LinearCode, limit: int) -> Integers | None:
    """The support of the lightest combination of two rows if it is lighter than the limit."""
    free = np.setdiff1d(np.arange(form.shape[1]), pivots)
    weight = code.weight[free]
    entries, pivot_weight = form[:, free], code.weight[pivots]
    if len(pivots) < 2 or not len(free):
        return None
    reciprocals = inverses(entries, code.p)
    filled = entries != 0
    first, second = np.triu_indices(len(pivots), 1)
    step = max(1, PAIRS_AT_ONCE // len(free))
    places = None
    for start in range(0, len(first), step):
        a, b = first[start : start + step], second[start : start + step]
        ratio = times(entries[a], reciprocals[b], code.p)  # 0 where only one of them, or none, has an entry
        union = (filled[a] | filled[b]) @ weight
        saved, value = _heaviest(ratio, weight)
        total = pivot_weight[a] + pivot_weight[b] + union - saved
        best = int(np.argmin(total))
        if total[best] < limit:
            i, j = a[best], b[best]
            cancelled = (ratio[best] == value[best]) & (value[best] != 0)
            rest = (filled[i] | filled[j]) & ~cancelled
            places, limit = np.sort(np.concatenate([pivots[[i, j]], free[rest]])), int(total[best])
    return places


def _heaviest(ratio: Residues, weight: Integers) -> tuple[Integers, Residues]:
    """For each row the ratio other than 0 with the greatest total weight: that weight (0 if none) and the ratio."""
    n, k = ratio.shape
    shift = np.uint64(PLACES)
    keys = np.sort((ratio << shift) | np.arange(k, dtype=np.uint64), axis=1)  # the place of a ratio goes with it
    ordered = keys >> shift
    changes = np.ones((n, k), dtype=bool)
    changes[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = np.flatnonzero(changes)  # where a run of equal ratios begins; every row begins one
    runs = np.add.reduceat(weight[(keys & np.uint64(2**PLACES - 1)).ravel()], start)
    value, row = ordered.ravel()[start], start // k
    runs[value == 0] = 0
    # of the runs of each row the heaviest, and of equally heavy ones the first
    top = np.maximum.reduceat(runs, np.flatnonzero(np.append(True, row[1:] != row[:-1])))
    where = np.flatnonzero(runs == top[row])
    return top, value[where[np.append(True, row[where][1:] != row[where][:-1])]]


SETS_AT_ONCE = 2**17


def level_work(places: int, w: int) -> int:
    """Work of :func:`level`, in modular multiplications."""
    return 5 * w * comb(places, max(1, w - 1)) + 10_000 * places


def level(code: LinearCode, w: int, limit: int, accept: Callable[[Integers], bool]) -> int:
    """The least weight below ``limit`` of an accepted codeword of exactly ``w`` places; ``limit`` if there is none.

    How: "Level w in detail" in :mod:`simfl.privacy.multiround.weak`; the work does not depend on the rank. Presumes
    that codewords on fewer places were looked for before, with the same limit.

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
        step = max(1, SETS_AT_ONCE // (len(after) + w))
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


def _offer(places: Integers, weight: Integers, limit: int, accept: Callable[[Integers], bool]) -> int:
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
    x: Residues, y: Residues, columns: Integers, load: Integers, code: LinearCode
) -> tuple[Integers, Integers, Integers]:
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
