"""A run as another program stores it, written round by round; what a tracker does changes no result."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from simfl.core.errors import MissingError, SimflError
from simfl.core.json_data import JsonObject
from simfl.results.folder import ResultsFolder
from simfl.results.notes import Notes
from simfl.results.run_files import RoundRow, infinite_names, infinite_values, read_rows

AXES = {"round", "time_s"}
"""Where a value stands, not what it is."""


class TrackerError(SimflError):
    """A tracker's library failed (exit 2)."""


@dataclass
class Tracker(ABC):
    """Writes one run. Steps are rounds, times are simulated.

    Attributes:
        name: of the scenario: the experiment, or project.
        digest: of the run.
        folder: its results.
        out: root of all results.
        scenario: all of it as plain data.
        notes: the run's name, tags and note.
        label: what the run is called where it has no name.
    """

    option: ClassVar[str]
    name: str
    digest: str
    folder: Path
    out: Path
    scenario: JsonObject
    notes: Notes
    label: str
    _columns: set[str] = field(default_factory=set, init=False)
    _is_open: bool = field(default=False, init=False)

    @classmethod
    @abstractmethod
    def prepare(cls, scenario: str) -> None:
        """Makes what all runs of the scenario of this name share, before several processes write at once.

        Raises:
            MissingError: the library is not there.
        """

    @abstractmethod
    def open(self) -> None:
        """Begins the run's record."""

    @abstractmethod
    def write(self, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Adds values of a round, at most ``time_s`` simulated seconds after the start."""

    @abstractmethod
    def close(self, summary: JsonObject | None, infinite: Sequence[str] = ()) -> None:
        """Ends the record: with the final values, or None where the run has stopped before its end.

        ``infinite`` names the final values that are None because they are infinite.
        """

    @property
    def title(self) -> str:
        """What the run is called."""
        return self.notes.name or self.label or self.digest

    def on_round(self, row: RoundRow) -> None:
        """Writes a row of ``rounds.csv``; the first opens the record."""
        if not self._is_open:
            self.open()
            self._is_open = True
        values = {name: value for name, value in row.items() if value is not None and name not in AXES}
        self._columns.update(values)
        self._write(row, values)

    def finish(self, summary: JsonObject) -> None:
        """Writes what was computed at the end of the run only, such as privacy, and the final values.

        The latest value of an ε that became infinite is infinity then.
        """
        if not self._is_open:
            return
        results = ResultsFolder.open(self.folder)
        columns, rows = results.columns(), list(read_rows(results.file("rounds.csv")))
        for row, infinite in zip(rows, infinite_values(summary, columns, rows), strict=True):
            late = row.keys() - self._columns - AXES
            values = {name: value for name in sorted(late) if (value := row[name]) is not None}
            in_order = {name: value for name, value in infinite.items() if name in late or row is rows[-1]}
            self._write(row, values | in_order)
        self.close(summary, infinite_names(summary, columns))

    def abandon(self) -> None:
        """The run has stopped before its end."""
        if self._is_open:
            self.close(None)

    @classmethod
    @contextmanager
    def failures(cls, then: str) -> Iterator[None]:
        """
        Args:
            then: what follows where something fails.

        Raises:
            TrackerError: whatever the library raised, in one line.
        """
        try:
            yield
        except MissingError:
            raise
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise TrackerError(f"--log {cls.option}: {text}; {then}") from error

    def _write(self, row: RoundRow, values: Mapping[str, float]) -> None:
        if values:
            self.write(int(row["round"] or 0), float(row["time_s"] or 0.0), values)
