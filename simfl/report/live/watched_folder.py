"""How far a running run, sweep or comparison has come, read from the tables that grow on disk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simfl.core.certificate_words import basis_lines, unite_columns
from simfl.core.column_files import columns_by_name, document
from simfl.core.columns import Column, order_columns, unknown
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject, number_of
from simfl.report.axes import JOINT, labels, name_runs, natural
from simfl.report.live.live_clients import LiveClients
from simfl.report.study_reader import index_of, place_of, runs_below
from simfl.results.file_names import BEGUN, SCENARIO, is_finished, is_swept
from simfl.results.folder import ResultsFolder, UnfinishedTable, no_results
from simfl.results.run_files import DIVERGED, LOSSES, infinite_names
from simfl.results.sealed_files import read_failure
from simfl.results.tables import SEALS

POINTS = 300
"""Points of a curve that are told at most, beside the last one."""

BLOCK_BYTES = 1 << 23
BACK = 5000
"""Rows at the end of a block that are searched for a column's last value."""

Point = list[float | None]


@dataclass
class RoundsTail:
    """The table of a run's folder, finished (``rounds.csv``) or not (``rounds.csv.part``, as far as its seals reach).

    It grows while it is looked at: nothing is read twice, and only a curve's points are kept.
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
    value = number_of(cell, math.nan)
    return value if math.isfinite(value) else None


ACROSS = "round", "time_s"
"""What curves are drawn against."""

OVERLAID = 8
"""Runs whose curves are drawn over one another at most."""


@dataclass
class WatchedFolder:
    """A folder of a run, a sweep or a comparison, or one that holds runs, that is looked at again and again.

    What is finished is read once.
    """

    folder: Path
    _done: dict[Path, JsonObject] = field(default_factory=dict)
    _tables: dict[Path, RoundsTail] = field(default_factory=dict)
    _live_clients: dict[str, LiveClients] = field(default_factory=dict)
    _scenarios: dict[Path, JsonObject] = field(default_factory=dict)
    _names: dict[Path, str] = field(default_factory=dict)
    _named: set[Path] = field(default_factory=set)

    def look(self, chosen: Sequence[str] = ()) -> JsonObject:
        """The state now, as JSON data: ``title``, ``finished``, ``runs``, those ``shown`` with their curves, the
        ``columns`` that the curves show, the ``bases`` of the certificates among them and, where one run is
        shown, its ``clients``.

        Shown are the runs of the ``chosen`` digests, OVERLAID at most; where there is none, the last running one.

        Raises:
            SimflError: there is no run, finished or not.
        """
        members = self._members()
        if not members:
            raise SimflError(f"{self.folder}: {no_results(self.folder, 'no run here, finished or not')}")
        runs = [self._run(path, label) | {"label": label} for path, label in members]
        places = {path.name: (path, label) for path, label in members}
        shown = [digest for digest in dict.fromkeys(chosen) if digest in places][:OVERLAID] or [_latest(runs)]
        known = unite_columns(column for digest in shown for column in _columns(places[digest][0]).values())
        curves = {digest: self._curves(places[digest][0]) for digest in shown}
        clients = self._clients(places[shown[0]][0], runs) if len(shown) == 1 else []
        columns = _shown_columns(list(curves.values()), known)
        names = (*ACROSS, *(column.name for column in columns))
        return {
            "title": self._title([path for path, _ in members]),
            "finished": all(run["state"] in ("done", "failed") for run in runs),
            "runs": runs,
            "shown": [
                {"digest": digest, "label": places[digest][1], "curves": {name: its.get(name, []) for name in names}}
                for digest, its in curves.items()
            ],
            "columns": document(columns),
            "bases": basis_lines(columns),
            "clients": clients,
        }

    def _clients(self, path: Path, runs: Sequence[JsonObject]) -> list[JsonObject]:
        """The clients of a run; what of them is damaged is added to its row of ``runs``."""
        live_clients = self._live_clients.setdefault(path.name, LiveClients(path))
        protocol = self._scenario_or_none(path).get("secagg", "plain")
        clients = live_clients.look(protocol if isinstance(protocol, str) else str(protocol.get("name")))
        if live_clients.damages:
            run = next(run for run in runs if run["digest"] == path.name)
            run["error"] = "; ".join(dict.fromkeys(filter(None, (run["error"], *live_clients.damages))))
        return clients

    def _members(self) -> list[tuple[Path, str]]:
        """Folders of runs, and their names."""
        if is_swept(self.folder):
            axes, rows = index_of(self.folder)
            names = labels(axes, rows)
            return [
                (place_of(self.folder, row["digest"]), JOINT.join(filter(None, (name, f"seed {row['seed']}"))))
                for row, name in zip(rows, names, strict=True)
            ]
        paths = runs_below(self.folder, SCENARIO)
        known = {path: scenario for path in paths if (scenario := self._scenario_or_none(path))}
        if len(paths) > 1 and known.keys() != self._named:
            self._names = dict(zip(paths, name_runs(paths, known), strict=True))
            self._named = set(known)
        members = [(path, self._names.get(path, path.name)) for path in paths]
        return sorted(members, key=lambda member: natural(member[1]))

    def _run(self, path: Path, label: str) -> JsonObject:
        if path in self._done:
            return self._done[path]
        run: JsonObject = {"label": label, "digest": path.name, "state": "waiting", "round": 0, "rounds": None,
                               "ending": False, "accuracy": None, "time_s": None, "error": None,
                               "diverged": None, "infinite": []}  # fmt: skip
        if is_finished(path):
            run |= _final_state(path)
            self._done[path] = run
            return run
        try:
            failure = read_failure(path)
            if failure is None and (path / SCENARIO).exists() and not (path / BEGUN).exists():
                ResultsFolder.open_begun(path)  # says what is gone
        except SimflError as error:
            if is_finished(path):  # by now
                return self._run(path, label)
            return run | {"state": "failed", "error": str(error)}
        if failure is not None:
            run |= {"state": "failed", "error": str(failure.get("error", ""))}
        elif any((path / f"rounds.csv{ending}").exists() for ending in (".part", SEALS)):
            run["state"] = "running"
            try:
                training = self._scenario(path).get("training")
                table = self._table(path)
            except SimflError as error:
                return run | {"error": str(error)}
            planned = training.get("rounds") if isinstance(training, dict) else None
            planned = planned if isinstance(planned, int) else None  # else something else ends the run
            run |= {"state": "running", "rounds": planned, "round": table.rows, "ending": table.rows == planned,
                    "time_s": table.last("time_s"), "accuracy": table.last("test_accuracy"),
                    "diverged": table.diverged}  # fmt: skip
        return run

    def _table(self, path: Path) -> RoundsTail:
        table = self._tables.setdefault(path, RoundsTail(path))
        table.look()
        return table

    def _title(self, paths: Sequence[Path]) -> str:
        """The scenario's name; of several scenarios, the folder's."""
        names = {str(name) for path in paths if (name := self._scenario_or_none(path).get("name"))}
        if len(names) == 1:
            return names.pop()
        return self.folder.resolve().name if names else self.folder.resolve().parent.name

    def _scenario_or_none(self, path: Path) -> JsonObject:
        """The data of a run's scenario; nothing where it is not there yet, or damaged, which its row says."""
        try:
            return self._scenario(path)
        except SimflError:
            return {}

    def _scenario(self, path: Path) -> JsonObject:
        if path not in self._scenarios and (scenario := scenario_of(path)):
            self._scenarios[path] = scenario
        return self._scenarios.get(path, {})

    def _curves(self, path: Path) -> dict[str, list[float | None]]:
        """The curves of a run; none where its table is damaged, which its row says."""
        try:
            return self._table(path).curves()
        except SimflError:
            return {}


def _latest(runs: Sequence[JsonObject]) -> str:
    """The digest of the last running one, else of the last one."""
    unfinished = [run for run in runs if run["state"] == "running"]
    return str((unfinished or runs)[-1]["digest"])


def _final_state(path: Path) -> JsonObject:
    """The end of a run that is complete, or what is damaged in it."""
    try:
        results = ResultsFolder.open(path)
        results.check()
        columns, summary = results.columns(), results.summary
    except SimflError as error:
        return {"state": "failed", "error": str(error)}
    infinite = [columns[name].noun for name in infinite_names(summary, columns) if columns[name].shown]
    return {"state": "done", "round": summary["rounds"], "rounds": summary["rounds"],
            "accuracy": summary.get("test_accuracy"), "time_s": summary.get("time_s"),
            "diverged": summary.get("diverged_round"), "infinite": infinite}  # fmt: skip


def _shown_columns(curves: Sequence[dict[str, list[float | None]]], known: dict[str, Column]) -> list[Column]:
    """Every column of ``rounds.csv`` that is shown and has changed in one of the runs."""
    names = dict.fromkeys(name for its in curves for name in its)
    columns = order_columns(known.get(name) or unknown(name) for name in names)
    return [
        column
        for column in columns
        if column.shown
        and column.name not in ACROSS
        and any(len(set(its.get(column.name, ())) - {None}) > 1 for its in curves)
    ]


def scenario_of(path: Path) -> JsonObject:
    """The data of a run's ``scenario.yaml``; nothing where no run has begun.

    Raises:
        IntegrityError: it is damaged.
    """
    from simfl.scenario.yaml.reader import read

    if is_finished(path):
        results = ResultsFolder.open(path)
    elif any((path / name).exists() for name in (SCENARIO, BEGUN)):
        results = ResultsFolder.open_begun(path)
    else:
        return {}
    try:
        value = read(results.read(SCENARIO).decode(), SCENARIO).value
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _columns(path: Path) -> dict[str, Column]:
    """What describes a run's columns; of all runs while it is running, or where it is damaged, which its row says."""
    try:
        return ResultsFolder.open(path).columns() if is_finished(path) else columns_by_name()
    except SimflError:
        return columns_by_name()
