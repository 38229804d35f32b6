"""Expected cardinalities after failures: of the clients a policy selects, those whose updates are aggregated.

Clients fail independently of one another, of who is available and of the past. What is left of a selection then
depends on the training rule: the failed client's unit is dropped (``drop_unit``), the round is (``abort``), or the
survivors are summed (``partial``).
"""

from math import comb

import numpy as np
from numpy.typing import NDArray

from simfl.selection.theory.cardinality import at_least

Floats = NDArray[np.float64]

MOST_UNITS = 1000
"""Units that survive with different probabilities, up to which the sums are evaluated (about a second)."""


def share(survive: Floats, unit: int, k: int, on_failure: str) -> float | None:
    """What part of ``k`` selected clients in units of ``unit`` is aggregated on average; None where it depends on who
    they are.

    ``survive``: probability of not failing, float64 (clients,).
    """
    if not (survive == survive[0]).all():
        return None
    return float(survive[0]) ** {"partial": 1, "drop_unit": unit, "abort": k}[on_failure]


def each_for_itself(selected: Floats, survive: Floats, on_failure: str) -> float:
    """Mean number of aggregated clients where each is selected independently, as a unit of its own.

    ``selected``, ``survive``: probability of being selected and of not failing, float64 (clients,).
    """
    surviving = selected * survive
    if on_failure != "abort":
        return float(surviving.sum())
    calm = 1 - selected + surviving  # the client is not selected, or it does not fail
    before = np.append(1.0, np.cumprod(calm)[:-1])
    after = np.append(np.cumprod(calm[::-1])[::-1][1:], 1.0)
    return float(surviving @ (before * after))


def of_blocks(here: Floats, survive: Floats, need: int, on_failure: str, uniform: bool) -> float | None:
    """Mean number of aggregated clients of ``need`` disjoint units, all of them available, or none.

    None where it depends on the past, or there are more than :data:`MOST_UNITS` different units.

    Args:
        here: probability that each unit is wholly available, float64 (units,).
        survive: probability of not failing, float64 (units, size).
        uniform: every available row is selected with the same probability, whatever happened before.
    """
    units, size = survive.shape
    whole = survive.prod(axis=1)
    surviving = survive.sum(axis=1) if on_failure == "partial" else size * whole
    if on_failure == "abort" and (whole == whole[0]).all():
        return need * size * at_least(here, need) * float(whole[0]) ** need
    if on_failure != "abort" and (surviving == surviving[0]).all():
        return need * at_least(here, need) * float(surviving[0])
    if not (uniform or need == units) or units > MOST_UNITS:
        return None
    return need * size * _all_of(here, whole, need) if on_failure == "abort" else _sum_of(here, surviving, need)


def _sum_of(here: Floats, value: Floats, need: int) -> float:
    """Mean of the summed values of ``need`` available units, uniformly chosen; 0 if fewer are available.

    ``count[a]`` is Pr[a are available], ``total[a]`` the mean of their summed values on that event.
    """
    count, total = np.ones(1), np.zeros(1)
    for q, v in zip(here.tolist(), value.tolist(), strict=True):
        count, total = _also(count, count, q), _also(total, total + v * count, q)
    a = np.arange(need, len(total))
    return float(np.sum(total[need:] * need / a))


def _also(without: Floats, happened: Floats, q: float) -> Floats:
    """One event of probability q more: the coefficients of those in which it does not happen, and of those it does."""
    return np.append((1 - q) * without, 0.0) + np.append(0.0, q * happened)


def _all_of(here: Floats, value: Floats, need: int) -> float:
    """Mean of the product of the values of ``need`` available units, uniformly chosen; 0 if fewer are available.

    ``sums[a, m]`` is the mean, over the events on which a units are available, of the sum over all sets of m of them
    of the product of their values.
    """
    units = len(here)
    sums = np.zeros((units + 1, need + 1))
    sums[0, 0] = 1
    for number, (q, v) in enumerate(zip(here.tolist(), value.tolist(), strict=True), 1):
        more = q * sums[:number]
        sums[:number] *= 1 - q
        sums[1 : number + 1] += more
        sums[1 : number + 1, 1:] += v * more[:, :-1]
    return float(sum(sums[a, need] / comb(a, need) for a in range(need, units + 1)))
