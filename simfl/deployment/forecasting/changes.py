"""Whether who takes part changes over a log: p-values of tests that order its rounds anew.

Rounds are moved in runs of several, as rounds in a row may be alike. Where clients stay away for longer than a run,
such tests find changes too often.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simfl.deployment.forecasting.selection_chance import log_choices
from simfl.plugins import Bools, Integers

PERMUTATIONS = 500


def halves_differ(rows: Bools, rng: np.random.Generator) -> float:
    """p-value of the hypothesis that units took part as often in both halves of a log, bool (J, M)."""
    runs = _runs(np.arange(len(rows)), 20)
    counts = np.array([rows[run].sum(axis=0) for run in runs])

    def difference(order: Integers) -> float:
        half = len(order) // 2
        one, two = counts[order[:half]].sum(axis=0), counts[order[half:]].sum(axis=0)
        return float(((one - two) ** 2 / np.maximum(one + two, 1)).sum())

    return _p_value(difference, len(runs), rng)


def missing_at_end(rows: Bools, rng: np.random.Generator) -> float:
    """p-value of the hypothesis that units are in the last sums as often as in earlier ones: none has left for good.

    A unit in c of J sums is in none of the last l with probability C(J - l, c) / C(J, c), if all orders are equally
    likely; the logarithms of all units are added up. Rounds without a sum say nothing; else it is 1.
    """
    if not rows.any():
        return 1.0
    runs, count = _runs(np.flatnonzero(rows.any(axis=1)), 12), rows.sum(axis=0)

    def surprise(order: Integers) -> float:
        sums = rows[np.concatenate([runs[run] for run in order])]
        last = np.where(count > 0, len(sums) - np.argmax(sums[::-1], axis=0), len(sums))
        return -float(log_choices(last, count).sum())

    return _p_value(surprise, len(runs), rng)


def _runs(rounds: NDArray[np.intp], fewest: int) -> list[NDArray[np.intp]]:
    """So many runs, or up to twice as many; of a log of fewer rounds each is one."""
    return np.array_split(rounds, max(2, len(rounds) // max(1, len(rounds) // fewest)))


def _p_value(number: Callable[[Integers], float], runs: int, rng: np.random.Generator) -> float:
    """The share of orders of the runs whose number is as large as the log's."""
    first = number(np.arange(runs))
    others = [number(rng.permutation(runs)) for _ in range(PERMUTATIONS)]
    return (1 + sum(value >= first for value in others)) / (1 + PERMUTATIONS)
