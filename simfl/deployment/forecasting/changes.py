"""Whether who takes part changes over a log: p-values of tests that order its rounds anew, in runs of several, as
rounds in a row may be alike.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simfl.deployment.forecasting.selection_chance import log_choices
from simfl.plugins import Bools, Integers

PERMUTATIONS = 500


def halves_differ(rows: Bools, rng: np.random.Generator) -> float:
    """Of equal rates in both halves of a log, bool (J, M)."""

    def difference(runs: list[Integers]) -> float:
        half = len(runs) // 2
        one, two = (rows[np.concatenate(part)].sum(axis=0) for part in (runs[:half], runs[half:]))
        return float(((one - two) ** 2 / np.maximum(one + two, 1)).sum())

    return _p_value(difference, np.arange(len(rows)), 20, rng)


def missing_at_end(rows: Bools, rng: np.random.Generator) -> float:
    """Of units that are as likely to be in the last sums as in earlier ones: some may have left for good.

    A unit in c of J sums is in none of the last l with probability C(J - l, c) / C(J, c), if all orders are equally
    likely; the logarithms of all units are added up.
    """

    def surprise(runs: list[Integers]) -> float:
        sums, count = rows[np.concatenate(runs)], rows.sum(axis=0)
        last = np.where(count > 0, len(sums) - np.argmax(sums[::-1], axis=0), len(sums))
        return -float(log_choices(last, count).sum())

    return _p_value(surprise, np.flatnonzero(rows.any(axis=1)), 12, rng)


def _p_value(
    number: Callable[[list[Integers]], float], rounds: NDArray[np.intp], most: int, rng: np.random.Generator
) -> float:
    """The share of orders of runs (``most`` of them or up to twice as many) whose number is as large as the log's."""
    runs = np.array_split(rounds, max(2, len(rounds) // max(1, len(rounds) // most)))
    first = number(runs)
    others = [number([runs[i] for i in rng.permutation(len(runs))]) for _ in range(PERMUTATIONS)]
    return (1 + sum(value >= first for value in others)) / (1 + PERMUTATIONS)
