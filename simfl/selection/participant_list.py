"""Given participants: those whom a list names, round by round."""

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.storage.text_table import csv_rows
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES
from simfl.selection.units.sizes import Problem

MOST = 200_000
"""Entries of a list; it stands in the run's scenario."""

Client = Annotated[int, Field(ge=0, le=10**9)]


@POLICIES("given")
@dataclass(frozen=True)
class GivenSelection:
    """In each round those clients of a given list who are available: the participants of another run, say.

    The file is a CSV table with the columns round and client, as participation.csv of a run; its weights are not used.
    Its first round is 0; in a round that it does not name, and beyond its last, nobody is selected.
    """

    path: Annotated[DataPath | None, Field(description="CSV file with the columns round and client")] = None
    rows: Annotated[
        tuple[tuple[Client, ...], ...] | None, Field(description="the clients of each round, without a file")
    ] = None
    k: Annotated[int | None, Field(ge=1, description="not used: becomes the most clients of a round")] = None

    unit_size = 1
    fixed_size = False
    premise = "the list of participants was made without looking at the clients' data"
    example = {"rows": [[0, 1], [], [2, 3]]}

    def check(self, setting: ScenarioView) -> list[Problem]:
        if self.rows is None:
            return [("path", "give either path or rows")]
        if setting.training.asynchronous:
            why = "lists who takes part in each round, and a buffered server asks who starts next; use training: fedavg"
            return [("name", f"is given, which {why}")]
        largest = max((client for row in self.rows for client in row), default=-1)
        if largest >= setting.clients:
            return [("rows", f"name client {largest}, and there are clients 0 to {setting.clients - 1}")]
        if (twice := next((t for t, row in enumerate(self.rows) if len(set(row)) < len(row)), None)) is not None:
            return [("rows", f"name a client twice in round {twice}")]
        rounds = setting.training.most_rounds
        if rounds is not None and rounds > len(self.rows):
            why = f"end after {len(self.rows)} rounds, and training.rounds is {rounds}"
            return [("rows", f"{why}, whose nearest valid value is {len(self.rows)}")]
        return []

    def resolve(self, setting: ScenarioView) -> Self:
        """Reads the file, whose rows then stand in the scenario.

        Raises:
            ScenarioError: both or none are given, or the file is no such table.
        """
        if (self.path is None) == (self.rows is None):
            raise ScenarioError("path", "give either path or rows")
        rows = self._read(setting) if self.rows is None else self.rows
        if not any(rows):
            raise ScenarioError("path" if self.path else "rows", "name no client")
        return replace(self, path=None, rows=rows, k=max(map(len, rows)))

    def _read(self, setting: ScenarioView) -> tuple[tuple[int, ...], ...]:
        assert self.path is not None, "or rows are given"
        (place, header), *lines = csv_rows(setting.file(self.path), "path") or [(self.path, [])]
        if not {"round", "client"} <= set(header) <= {"round", "client", "weight", "aggregator"}:
            has = f"has the columns {', '.join(header)}" if header else "is empty"
            raise ScenarioError("path", f"{place}: {has}; it needs round and client, perhaps weight")
        if len(lines) > MOST:
            raise ScenarioError("path", f"{place}: has {len(lines):,} rows, and {MOST:,} are taken")
        pairs = [_entry(where, dict(zip(header, cells))) for where, cells in lines]
        if (span := max((number for number, _ in pairs), default=0) + 1) > MOST:
            raise ScenarioError("path", f"{place}: spans {span:,} rounds, and {MOST:,} are taken")
        rows: list[set[int]] = [set() for _ in range(span)]
        for number, client in pairs:
            rows[number].add(client)
        return tuple(tuple(sorted(row)) for row in rows)

    def select(self, view: View, k: int | None, rng: np.random.Generator) -> Units:
        """Those of the round's clients who are available, shape (selected, 1); ``k`` and the stream are not used."""
        assert self.rows is not None, "resolved"
        row = np.array(self.rows[view.round] if view.round < len(self.rows) else (), dtype=np.int32)
        return row[view.available[row]].reshape(-1, 1)


def _entry(place: str, cells: dict[str, str]) -> tuple[int, int]:
    """A line's round and client.

    Raises:
        ScenarioError: they are no such numbers, or somebody else than the server aggregates.
    """
    if cells.get("aggregator", "-1") != "-1":
        raise ScenarioError("path", f"{place}: aggregator {cells['aggregator']!r} is not the server")
    number, client = cells.get("round", ""), cells.get("client", "")
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in (number, client)):
        raise ScenarioError("path", f"{place}: round and client must be whole numbers, not {number!r} and {client!r}")
    return int(number), int(client)
