"""What a run's accountants are told, and what they say."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.base import History
from simfl.results import participation_matrices
from simfl.scenario import Scenario
from simfl.scenario.owned import accountants

__all__ = ["accounts", "history", "of_clients"]


def accounts(scenario: Scenario, seen: History) -> dict[str, Iterable[Any]]:
    """What the accountants say, column by column, a value a round."""
    found: dict[str, Iterable[Any]] = {}
    for accountant in accountants(scenario):
        found |= accountant.accounts(seen)
    return found


def of_clients(scenario: Scenario, seen: History) -> dict[str, NDArray[Any]]:
    """What the accountants say of each client, by name, (clients,)."""
    return {name: values for each in accountants(scenario) for name, values in each.clients(seen).items()}


def history(scenario: Scenario, folder: Path, rounds: int, samples: NDArray[np.int64] | None = None) -> History:
    """All that accountants see of a run.

    Args:
        scenario: what was played.
        folder: its folder, with participation.csv and, where there are stages, facts.csv.
        rounds: rounds played.
        samples: training samples of each client, shape (clients,); None = not known.
    """
    participation = participation_matrices(folder / "participation.csv", rounds, scenario.clients)
    facts = _facts(folder / "facts.csv", rounds, len(scenario.privacy.stages))
    rule = scenario.training
    weighing = samples if rule.by_samples else None
    stages, left = scenario.privacy.stages, rule.follows_data
    return History(participation, facts, not rule.aggregate.sum_only, weighing, stages, left)


def _facts(path: Path, rounds: int, stages: int) -> tuple[dict[str, NDArray[np.float64]], ...]:
    found: tuple[dict[str, NDArray[np.float64]], ...] = tuple({} for _ in range(stages))
    if stages:
        import pandas

        table = pandas.read_csv(path, dtype={"round": np.int64, "stage": np.int64, "value": np.float64})
        for round, stage, name, value in table.itertuples(index=False):
            found[stage].setdefault(name, np.full(rounds, np.nan))[round] = value
    return found
