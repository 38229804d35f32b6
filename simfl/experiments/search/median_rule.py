"""Pruning by the median rule: a run stops where its best value so far is worse than the median of earlier runs.

This is the rule of Optuna's ``MedianPruner``, at equal rounds or equal simulated time. Thresholds come from the runs
that were complete before a batch was proposed, so that the number of workers changes nothing.
"""

from collections.abc import Sequence
from statistics import median

from simfl.experiments.search.objectives import Objective
from simfl.experiments.sweep.stop_rule import By, Reached, StopRule, best_at

LEVELS = 9
"""A run is compared at so many points, equally far apart, of the shortest earlier run."""

STARTUP = 5
"""Complete runs before any is stopped."""


def median_rule(objective: Objective, by: By, histories: Sequence[Sequence[Reached]]) -> StopRule | None:
    """The rule for the next batch; None where too few runs are complete.

    Args:
        objective: a column of rounds.csv.
        by: rounds or time.
        histories: rounds of the complete runs.
    """
    histories = [history for history in histories if history]
    if len(histories) < STARTUP:
        return None
    shortest = min(float(history[-1].rounds if by == "rounds" else history[-1].time_s) for history in histories)
    levels: list[tuple[float, float]] = []
    for i in range(1, LEVELS + 1):
        level = shortest * i / (LEVELS + 1)
        level = float(int(level)) if by == "rounds" else level
        values = [best for history in histories if (best := best_at(history, by, level, objective.sign)) is not None]
        if level and len(values) >= STARTUP and (not levels or level > levels[-1][0]):
            levels.append((level, median(values)))
    return StopRule(objective.name, objective.sign, by, tuple(levels)) if levels else None
