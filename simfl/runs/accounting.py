"""What a run's accountants are rows, and what they say."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents import RoundResult
from simfl.core.coverage import changing_lengths, exposing, sent, told_by_compression
from simfl.core.errors import PluginError
from simfl.core.tolerance import tolerated_colluders
from simfl.core.types import SERVER, Arrays
from simfl.privacy.accountant import History
from simfl.privacy.stage import UNCOUNTED, UNSUMMED
from simfl.results.run_files import participation_matrices
from simfl.scenario import Scenario
from simfl.scenario.column_owners import accountants


def accounts(scenario: Scenario, seen: History) -> dict[str, Iterable[Any]]:
    """What the accountants say, column by column, a value a round.

    Raises:
        PluginError: an accountant fills a column that is none of its own.
    """
    columns: dict[str, Iterable[Any]] = {}
    for accountant in accountants(scenario):
        values = dict(accountant.accounts(seen))
        if foreign := sorted(values.keys() - {column.name for column in accountant.columns}):
            raise PluginError(accountant, f"accounts fills '{foreign[0]}', which is none of its columns; list it there")
        columns |= values
    return columns


def of_clients(scenario: Scenario, seen: History) -> Arrays:
    """What the accountants say of each client, by name, (clients,).

    Raises:
        PluginError: two of them say different things by one name.
    """
    numbers: Arrays = {}
    for accountant in accountants(scenario):
        for name, values in accountant.clients(seen).items():
            if name in numbers and not np.array_equal(numbers[name], values):
                raise PluginError(
                    accountant, f"clients says '{name}', as another accountant does with other values; rename it"
                )
            numbers[name] = values
    return numbers


def history(scenario: Scenario, folder: Path, rounds: int, samples: NDArray[np.int64] | None = None) -> History:
    """All that accountants see of a run.

    Args:
        scenario: what was run.
        folder: its folder, with participation.csv and, where there are stages, facts.csv.
        rounds: how many it had.
        samples: training samples of each client, shape (clients,); None = not known.
    """
    participation = _Matrices(folder / "participation.csv", rounds, scenario.clients)
    table = _table(folder / "facts.csv") if scenario.privacy.stages else []
    recorded = _fewest_tolerated(folder / "phases.csv", rounds)
    return history_of(scenario, participation, table, rounds, samples, recorded)


FactRow = tuple[int, int, str, float]
"""Round, stage, name, value: a row of facts.csv."""


def history_of(
    scenario: Scenario,
    participation: Mapping[int, Any],
    table: list[FactRow],
    rounds: int,
    samples: NDArray[np.int64] | None,
    recorded: NDArray[np.float64] | None,
) -> History:
    """The same of what a run has written, wherever it stands.

    Args:
        scenario, rounds, samples: as above.
        participation: see :class:`simfl.privacy.accountant.History`, as is ``recorded``.
        table: the rows of facts.csv.
    """
    facts = _facts(table, rounds, len(scenario.privacy.stages))
    unsummed, uncounted = _unsummed_counts(table, (rounds, scenario.clients)), any(row[2] == UNCOUNTED for row in table)
    rule = scenario.training
    weighing = samples if rule.by_samples else None
    coded = told_by_compression(scenario)
    exposed = tuple(part.name for part in exposing(scenario) if part not in coded)
    codes = tuple(part.name for part in coded)
    single, stages = not rule.aggregate.sum_only, scenario.privacy.stages
    tolerated, lengths = partial(tolerated_colluders, scenario), bool(changing_lengths(scenario))
    return History(
        participation, facts, single, weighing, stages, exposed, not sent(scenario), codes, tolerated, lengths,
        unsummed, uncounted, recorded, scenario.secagg.shows_updates, scenario.compression.codes,
    )  # fmt: skip


def history_in_memory(scenario: Scenario, rounds: Sequence[RoundResult], samples: NDArray[np.int64] | None) -> History:
    """The same of the rounds of a run that writes nothing."""
    from scipy.sparse import csr_array

    shape, table = (len(rounds), scenario.clients), list[FactRow]()
    matrices = {} if scenario.training.many_aggregators else {SERVER: np.zeros(shape)}
    recorded = np.full(len(rounds), np.inf)
    for done in rounds:
        to = np.full(len(done.clients), SERVER) if done.aggregators is None else done.aggregators
        for aggregator, client, weight in zip(to.tolist(), done.clients.tolist(), done.weights, strict=True):
            matrices.setdefault(aggregator, np.zeros(shape))[done.number, client] = weight
        for phase in done.phases:
            if phase.tolerated is not None:
                recorded[phase.round] = min(recorded[phase.round], phase.tolerated)
        table += [(done.number, i, *item) for i, facts in enumerate(done.facts) for item in facts.items()]
    participation = {to: csr_array(matrix) for to, matrix in matrices.items()}
    return history_of(scenario, participation, table, len(rounds), samples, recorded)


def _fewest_tolerated(path: Path, rounds: int) -> NDArray[np.float64] | None:
    """The fewest colluders that any session of each round says it tolerates, (rounds,), infinite where none says so."""
    if not path.exists():
        return None
    fewest = np.full(rounds, np.inf)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["tolerated"] and (t := int(row["round"])) < rounds:
                fewest[t] = min(fewest[t], int(row["tolerated"]))
    return fewest


@dataclass(frozen=True)
class _Matrices(Mapping[int, Any]):
    """The participation matrix of each aggregator, read when the first is asked for: not every accountant asks."""

    path: Path
    rounds: int
    clients: int

    @cached_property
    def by_aggregator(self) -> dict[int, Any]:
        return participation_matrices(self.path, self.rounds, self.clients)

    def __getitem__(self, aggregator: int) -> Any:
        return self.by_aggregator[aggregator]

    def __iter__(self) -> Iterator[int]:
        return iter(self.by_aggregator)

    def __len__(self) -> int:
        return len(self.by_aggregator)


def _table(path: Path) -> list[FactRow]:
    """The rows of facts.csv: round, stage, name, value."""
    import pandas

    table = pandas.read_csv(path, dtype={"round": np.int64, "stage": np.int64, "value": np.float64})
    return list(table.itertuples(index=False, name=None))


def _facts(table: list[FactRow], rounds: int, stages: int) -> tuple[dict[str, NDArray[np.float64]], ...]:
    facts: tuple[dict[str, NDArray[np.float64]], ...] = tuple({} for _ in range(stages))
    for round, stage, name, value in table:
        if not name.startswith(UNSUMMED) and name != UNCOUNTED:
            facts[stage].setdefault(name, np.full(rounds, np.nan))[round] = value
    return facts


def _unsummed_counts(table: list[FactRow], shape: tuple[int, int]) -> Any:
    """How many updates of each client are in no sum, CSR, or None; each stage that tells it says the same."""
    from scipy.sparse import csr_array

    rows = [row for row in table if row[2].startswith(UNSUMMED)]
    cells = {(round, int(name.removeprefix(UNSUMMED))): count for round, _, name, count in rows}
    if not cells:
        return None
    places = np.array(list(cells), dtype=np.int64)
    return csr_array((np.array(list(cells.values())), (places[:, 0], places[:, 1])), shape=shape)
