"""What several observers of one run have seen: a row for each and round, and what the summary says of each."""

import csv
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import write_atomically
from simfl.core.types import Arrays, Integers
from simfl.privacy.accountant import History
from simfl.runs.accounting import OF_SUMS, accounts, history, of_clients
from simfl.scenario import Scenario

Columns = Mapping[str, Sequence[Any]]
"""Values by a column's name, one a round of the run."""


class ObserverRecords(ABC):
    """What a run's tables say of its observers.

    Args:
        scenario: what was run.
        folder: with the tables.
        rounds: how many there were.
        samples: training samples of each client, (clients,); None = not known.
    """

    def __init__(self, scenario: Scenario, folder: Path, rounds: int, samples: Integers | None) -> None:
        self.scenario, self.folder, self.rounds, self.samples = scenario, folder, rounds, samples

    @property
    @abstractmethod
    def observers(self) -> dict[str, Columns]:
        """Each observer's columns, by its name; none where rounds.csv holds those of the only one."""

    @property
    @abstractmethod
    def of_root(self) -> Columns:
        """The columns of rounds.csv."""

    @abstractmethod
    def of_clients(self) -> Arrays:
        """What the accountants say of each client, by name, (clients,)."""

    @abstractmethod
    def disclosure(self, describe: Callable[[Scenario, History], JsonObject]) -> JsonObject:
        """What reaches whoever aggregates besides sums, and how many colluders each tolerates."""

    @abstractmethod
    def history(self, number: int) -> History:
        """What an aggregator has seen."""

    def of_coalition(self, names: Sequence[str]) -> Columns:
        """The columns of sums against some of the :attr:`observers` together."""
        raise NotImplementedError("there is one observer")

    def write_observers(self, path: Path) -> JsonObject:
        """Writes a row for each observer and round; what the summary says of each after the last one."""
        if not (seen := self.observers):
            return {}
        every = list(seen.values())  # what a stage says of its own rounds stands in rounds.csv only
        names = [name for name in every[0] if not any(... in columns.get(name, ()) for columns in every)]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["observer", "round", *names])
        last: JsonObject = {}
        for observer, columns in seen.items():
            known = {name: columns.get(name, [None] * self.rounds) for name in names}
            shown = {name: ["" if it is None else it for it in values] for name, values in known.items()}
            writer.writerows([observer, t, *(shown[name][t] for name in names)] for t in range(self.rounds))
            last[observer] = {name: _last(name, known[name]) for name in names}
        write_atomically(path, text.getvalue().encode())
        return {"observers": last}


class OneObserver(ObserverRecords):
    """The server, or clients of whom the worst stands in rounds.csv."""

    observers: ClassVar[dict[str, Columns]] = {}

    @cached_property
    def _history(self) -> History:
        return history(self.scenario, self.folder, self.rounds, self.samples)

    def history(self, number: int) -> History:
        """What it has seen."""
        return self._history

    @property
    def of_root(self) -> Columns:
        return accounts(self.scenario, self._history)  # type: ignore[return-value]

    def of_clients(self) -> Arrays:
        return of_clients(self.scenario, self._history)

    def disclosure(self, describe: Callable[[Scenario, History], JsonObject]) -> JsonObject:
        return describe(self.scenario, self._history)


def _last(name: str, values: Sequence[Any]) -> Any:
    """What holds after the last round: of what is evaluated in some rounds only, the last value."""
    known = [value for value in values if value is not None]
    value = (known[-1] if known else None) if name in OF_SUMS else values[-1]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def as_lists(columns: Mapping[str, Iterable[Any]]) -> Columns:
    """Columns that can be read more than once."""
    return {name: list(values) for name, values in columns.items()}


def only_sums(columns: Columns) -> Columns:
    """The columns that say how many clients hide each other."""
    return {name: values for name, values in columns.items() if name in OF_SUMS}


def worst(each: Sequence[Columns]) -> Columns:
    """Of the columns of several observers the worst value of each round: the fewest clients, the largest epsilon; a
    column that one has not is one of which it says nothing else.
    """
    names = list(dict.fromkeys(name for columns in each for name in columns))
    rounds = max(len(values) for columns in each for values in columns.values()) if names else 0
    every = {name: [columns.get(name, [...] * rounds) for columns in each] for name in names}
    return {name: [_worst_value(name, cells) for cells in zip(*values, strict=True)] for name, values in every.items()}


def _worst_value(name: str, values: Sequence[Any]) -> Any:
    said: list[Any] = [value for value in values if value is not None and value is not ...]
    if name in OF_SUMS:
        return min(said, key=float) if said else None
    if any(value is None for value in values):
        return None  # it is infinite there, or not known
    return max(said) if len(said) == len(values) or math.inf in said else ...
