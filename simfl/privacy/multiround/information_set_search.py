"""Light codewords by information-set search: upper bounds for the weak guarantee.

Echelon forms over random column orders have light rows, and so have combinations of two rows chosen to cancel as
much as possible (Stern's idea with two rows; the second coefficient is the most frequent ratio of their entries).
"""

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, echelon, inverses, times
from simfl.privacy.multiround.linear_code import PLACES, LinearCode

CHUNK = 2**19


def search_work(code: LinearCode) -> int:
    """Work of one trial of :func:`search`, in modular multiplications."""
    r, m = code.form.shape
    return 2 * r * r * m + 20 * r * r * (m - r) + 200_000


def search(code: LinearCode, limit: int, trials: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """The places of the lightest codeword found that weighs less than ``limit`` clients, or None.

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


def _rows(form: Residues, weight: NDArray[np.int64], limit: int) -> NDArray[np.int64] | None:
    """The support of the lightest row if it is lighter than the limit."""
    weights = (form != 0) @ weight
    best = int(np.argmin(weights))
    return np.flatnonzero(form[best]) if weights[best] < limit else None


def _pairs(form: Residues, pivots: NDArray[np.int64], code: LinearCode, limit: int) -> NDArray[np.int64] | None:
    """The support of the lightest combination of two rows if it is lighter than the limit."""
    free = np.setdiff1d(np.arange(form.shape[1]), pivots)
    weight = code.weight[free]
    entries, pivot_weight = form[:, free], code.weight[pivots]
    if len(pivots) < 2 or not len(free):
        return None
    reciprocals = inverses(entries, code.p)
    filled = entries != 0
    first, second = np.triu_indices(len(pivots), 1)
    step = max(1, CHUNK // len(free))
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


def _heaviest(ratio: Residues, weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], Residues]:
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
