"""Whether the next round may break a guarantee."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from simfl.api.certificates import multi_round
from simfl.deployment.forecasting.futures import one_round, plan
from simfl.deployment.forecasting.past import Past
from simfl.deployment.forecasting.policies import find_refusal
from simfl.plugins import SimflError, suggestion

DRAWS = 20
"""Next rounds that are looked at."""

NOTIONS = ("strong", "semi_strong", "weak")

EFFORT = 500_000_000
"""Budget of the guarantees of one matrix."""


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
    from scipy.sparse import csr_array, vstack

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
        after = csr_array(vstack([past.matrix, csr_array(row[None] * past.weights)]))
        for name in notions_below(guarantees(after), bounds):
            below[name] += weight / DRAWS
    return Outlook(now, below)


def least_values(texts: Iterable[str], option: str = "--floor") -> dict[str, float]:
    """``semi_strong=3`` as a mapping.

    Args:
        texts: one for each notion.
        option: what an error calls them.

    Raises:
        SimflError: there is no such notion, or no such number.
    """
    bounds: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in NOTIONS:
            raise SimflError(f"{option} {text}: the form is NOTION=NUMBER, with one of {', '.join(NOTIONS)}"
                             f"{suggestion(name, NOTIONS)}")  # fmt: skip
        try:
            bounds[name] = float(number)
        except ValueError:
            raise SimflError(f"{option} {text}: '{number}' is not a number, e.g. {name}=3") from None
        if not bounds[name] > 1:
            raise SimflError(f"{option} {text}: must be above 1; no guarantee is ever below 1")
    return bounds


def guarantees(matrix: object) -> dict[str, float | None]:
    """Each notion's value; None where it is not known, and the lower bound of the weak one.

    Args:
        matrix: weights of the clients in each aggregate, (J, N), as for
            :func:`simfl.privacy.multiround.matrix_metrics.multi_round`.
    """
    metrics = multi_round(matrix, budget=EFFORT)
    semi = metrics.semi_strong_bound if metrics.semi_strong is None else metrics.semi_strong
    return {"strong": metrics.strong, "semi_strong": semi, "weak": metrics.weak_lower}


def notions_below(values: Mapping[str, float | None], bounds: Mapping[str, float]) -> list[str]:
    """The notions that are not shown to reach their bounds, of those of which something is known."""
    return [name for name, bound in bounds.items() if (value := values[name]) is not None and value < bound]
