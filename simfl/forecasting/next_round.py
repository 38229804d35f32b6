"""Whether the next round may break a guarantee."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.forecasting.future_plan import plan
from simfl.forecasting.futures import one_round
from simfl.forecasting.least_guarantees import guarantees, notions_below
from simfl.forecasting.past import Past
from simfl.forecasting.policies import find_refusal

DRAWS = 20
"""Next rounds that are looked at."""


class Outlook(NamedTuple):
    """What a log's guarantees are, and may be after one more round.

    Attributes:
        now: each notion's value; None where it is not known, and the lower bound of the weak one.
        below: share of the next rounds after which each notion is below its bound; None where it is not known.
        unsaid: why it is not.
    """

    now: dict[str, float | None]
    below: dict[str, float] | None
    unsaid: str = ""


def outlook(past: Past, bounds: dict[str, float]) -> Outlook:
    """The guarantees that have a lower bound, now and after one more round under the policy that the log shows."""
    now = guarantees(past.matrix)
    if notions_below(now, bounds):
        return Outlook(now, dict.fromkeys(bounds, 1.0))
    if np.count_nonzero(past.rows.any(axis=1)) < 2:
        return Outlook(now, None, "one round says nothing about the next")
    if which := find_refusal(past):
        return Outlook(now, None, f"nothing is said of the next round ({which}, of which no forecast is given)")
    whole, *_ = plan(past, horizon=1)
    rows = np.array([one_round(whole, future) for future in range(DRAWS)])
    distinct, count = np.unique(rows, axis=0, return_counts=True)
    below = dict.fromkeys(bounds, 0.0)
    for row, weight in zip(distinct, count.tolist(), strict=True):
        for name in notions_below(guarantees(_with_row(past, row)), bounds):
            below[name] += weight / DRAWS
    return Outlook(now, below)


def _with_row(past: Past, row: NDArray[np.bool_]) -> object:
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([past.matrix, csr_array(row[None] * past.weights)]))
