"""A ``rounds.csv`` that grows while it is looked at: nothing is read twice, and only a curve's points are kept."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from simfl.core.errors import SimflError
from simfl.results.file_names import is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import DIVERGED, LOSSES
from simfl.results.unfinished import UnfinishedTable

POINTS = 300
"""Points of a curve that are told at most, beside the last one."""

BLOCK_BYTES = 1 << 23
BACK = 5000
"""Rows at the end of a block that are searched for a column's last value."""

Point = list[float | None]


@dataclass
class RoundsTail:
    """The table of a run's folder, finished (``rounds.csv``) or not (``rounds.csv.part``, as far as its seals reach).

    What is no finite number counts as empty; ``diverged`` is the first row with a loss that is not finite.
    """

    folder: Path
    rows: int = 0
    diverged: int | None = None
    _name: str = ""
    _part: UnfinishedTable | None = None
    _offset: int = 0
    _columns: list[str] = field(default_factory=list)
    _every: int = 1
    _points: list[Point] = field(default_factory=list)
    _end: Point = field(default_factory=list)
    _last: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Reads what has come since the last look.

        Raises:
            IntegrityError: the table is damaged; nothing of it is told then.
        """
        try:
            if is_finished(self.folder):
                if self._name != "rounds.csv":
                    path = ResultsFolder.open(self.folder).file("rounds.csv")
                    self._anew("rounds.csv")
                    self._read(path, path.stat().st_size)
                return
            part = self._part or UnfinishedTable(self.folder, "rounds.csv")
            began = part.began
            if part.look():
                if part is not self._part or part.began != began:  # another table: from its beginning
                    self._anew("rounds.csv.part", part)
                self._read(part.path, part.size)
        except SimflError:
            self._anew("")
            raise

    def _anew(self, name: str, part: UnfinishedTable | None = None) -> None:
        self.__init__(self.folder, _name=name, _part=part)  # type: ignore[misc]  # every field as if newly made

    def last(self, column: str) -> float | None:
        """The last value of a column."""
        return self._last.get(column)

    def curves(self) -> dict[str, Point]:
        """At most POINTS rows, evenly spread, and the last one, by column."""
        shown = self._points + ([self._end] if self.rows and (self.rows - 1) % self._every else [])
        return {name: [point[place] for point in shown] for place, name in enumerate(self._columns)}

    def _read(self, path: Path, end: int) -> None:
        with open(path, "rb") as file:
            file.seek(self._offset)
            while block := file.read(min(BLOCK_BYTES, end - self._offset)):
                whole = block.rfind(b"\n") + 1
                if not whole:
                    return  # half a line
                file.seek(self._offset + whole)
                self._offset += whole
                lines = block[: whole - 1].split(b"\n")
                if not self._columns:
                    self._columns = lines.pop(0).decode(errors="replace").split(",")
                self._take(lines)

    def _take(self, lines: list[bytes]) -> None:
        if not lines:
            return
        for number in range(-self.rows % self._every, len(lines), self._every):
            self._points.append(self._point(lines[number]))
        if self.diverged is None:
            self.diverged = next((self.rows + i for i, line in enumerate(lines) if self._has_diverged(line)), None)
        self.rows += len(lines)
        while len(self._points) > POINTS:
            self._points, self._every = self._points[::2], 2 * self._every
        self._end = self._point(lines[-1])
        missing = set(range(len(self._columns)))
        for line in lines[: -BACK - 1 : -1]:
            for place, value in enumerate(self._point(line)):
                if place in missing and value is not None:
                    self._last[self._columns[place]] = value
                    missing.discard(place)
            if not missing:
                return

    def _has_diverged(self, line: bytes) -> bool:
        mark = DIVERGED.encode()
        cells = dict(zip(self._columns, line.split(b","), strict=False)) if mark in line else {}
        return mark in (cells.get(name) for name in LOSSES)

    def _point(self, line: bytes) -> Point:
        cells = line.split(b",")
        return [_number(cells[at]) if at < len(cells) else None for at in range(len(self._columns))]


def _number(cell: bytes) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
