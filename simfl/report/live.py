"""How far a running run, sweep or comparison has come, read from the tables that grow on disk."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simfl.columns import Column, described, document, telling, unknown
from simfl.errors import SimflError
from simfl.report.axes import JOINT, labels
from simfl.report.growing import Growing
from simfl.report.people import People
from simfl.report.reading import index_of, place_of, runs_below
from simfl.stored import BEGUN, FAILURE, SCENARIO, Stored, is_finished, is_swept, read_sealed
from simfl.trace import SEALS

__all__ = ["Watched", "scenario_of"]

ACROSS = "round", "time_s"
"""What curves are drawn against."""

OVERLAID = 8
"""Runs whose curves are drawn over one another at most."""


@dataclass
class Watched:
    """A folder that is looked at again and again; what is finished is read once.

    Args:
        folder: of a run, a sweep or a comparison, or one that holds runs.
    """

    folder: Path
    _done: dict[Path, dict[str, Any]] = field(default_factory=dict)
    _tables: dict[Path, Growing] = field(default_factory=dict)
    _people: dict[str, People] = field(default_factory=dict)
    _scenarios: dict[Path, dict[str, Any]] = field(default_factory=dict)

    def look(self, chosen: Sequence[str] = ()) -> dict[str, Any]:
        """The state now, as JSON data: ``title``, ``finished``, ``runs``, those ``shown`` with their curves, the
        ``columns`` that the curves show and, where one run is shown, its ``clients``.

        Args:
            chosen: digests of the runs that are shown, OVERLAID at most; where there is none, the last that plays is.

        Raises:
            SimflError: there is no run, finished or not.
        """
        found = self._members()
        if not found:
            raise SimflError(f"{self.folder}: no run here, finished or not")
        runs = [dict(self._run(path, label)) for path, label in found]
        places = {path.name: (path, label) for path, label in found}
        playing = [run["digest"] for run in runs if run["state"] == "playing"]
        shown = [digest for digest in dict.fromkeys(chosen) if digest in places][:OVERLAID]
        shown = shown or [playing[-1] if playing else runs[-1]["digest"]]
        known: dict[str, Column] = {}
        for digest in shown:
            known |= _columns(places[digest][0])
        curves = {digest: self._curves(places[digest][0]) for digest in shown}
        clients: list[dict[str, Any]] = []
        if len(shown) == 1:
            path, _ = places[shown[0]]
            people = self._people.setdefault(shown[0], People(path))
            clients = people.look()
            _damaged(next(run for run in runs if run["digest"] == shown[0]), people.damages)
        columns = _telling(list(curves.values()), known)
        names = (*ACROSS, *(column.name for column in columns))
        return {
            "title": self._title(found[0][0]),
            "finished": all(run["state"] in ("done", "failed") for run in runs),
            "runs": runs,
            "shown": [
                {"digest": digest, "label": places[digest][1], "curves": {name: its.get(name, []) for name in names}}
                for digest, its in curves.items()
            ],
            "columns": document(columns),
            "clients": clients,
        }

    def _members(self) -> list[tuple[Path, str]]:
        """Folders of runs, and their names."""
        if is_swept(self.folder):
            axes, rows = index_of(self.folder)
            names = labels(axes, rows)
            return [
                (place_of(self.folder, row["digest"]), JOINT.join(filter(None, (name, f"seed {row['seed']}"))))
                for row, name in zip(rows, names, strict=True)
            ]
        return [(path, path.name) for path in runs_below(self.folder, SCENARIO)]

    def _run(self, path: Path, label: str) -> dict[str, Any]:
        if path in self._done:
            return self._done[path]
        run: dict[str, Any] = {"label": label, "digest": path.name, "state": "waiting", "round": 0, "rounds": None,
                               "ending": False, "accuracy": None, "time_s": None, "error": None,
                               "diverged": None}  # fmt: skip
        if is_finished(path):
            run |= _ended(path)
            self._done[path] = run
            return run
        try:
            failure = read_sealed(path / FAILURE)
        except SimflError as error:
            return run | {"state": "failed", "error": str(error)}
        if failure is not None:
            run |= {"state": "failed", "error": str(failure.get("error", ""))}
        elif any((path / f"rounds.csv{ending}").exists() for ending in (".part", SEALS)):
            run["state"] = "playing"
            try:
                planned = self._planned(path)
                table = self._table(path)
            except SimflError as error:
                return run | {"error": str(error)}
            run |= {"state": "playing", "rounds": planned, "round": table.rows, "ending": table.rows == planned,
                    "time_s": table.last("time_s"), "accuracy": table.last("test_accuracy"),
                    "diverged": table.diverged}  # fmt: skip
        return run

    def _table(self, path: Path) -> Growing:
        table = self._tables.setdefault(path, Growing(path))
        table.look()
        return table

    def _title(self, path: Path) -> str:
        try:
            return str(self._scenario(path).get("name") or self.folder.resolve().parent.name)
        except SimflError:  # its row says so
            return self.folder.resolve().parent.name

    def _planned(self, path: Path) -> int | None:
        """The rounds that the scenario asks for, None where something else ends the run."""
        training = self._scenario(path).get("training")
        rounds = training.get("rounds") if isinstance(training, dict) else None
        return rounds if isinstance(rounds, int) else None

    def _scenario(self, path: Path) -> dict[str, Any]:
        if path not in self._scenarios and (found := scenario_of(path)):
            self._scenarios[path] = found
        return self._scenarios.get(path, {})

    def _curves(self, path: Path) -> dict[str, list[float | None]]:
        """The curves of a run; none where its table is damaged, which its row says."""
        try:
            return self._table(path).curves()
        except SimflError:
            return {}


def _ended(path: Path) -> dict[str, Any]:
    """The end of a run that is complete, or what is damaged in it."""
    try:
        stored = Stored.open(path)
        stored.check()
    except SimflError as error:
        return {"state": "failed", "error": str(error)}
    summary = stored.summary
    return {"state": "done", "round": summary["rounds"], "rounds": summary["rounds"],
            "accuracy": summary.get("test_accuracy"), "time_s": summary.get("time_s"),
            "diverged": summary.get("diverged_round")}  # fmt: skip


def _telling(curves: Sequence[dict[str, list[float | None]]], known: dict[str, Column]) -> list[Column]:
    """Every column of ``rounds.csv`` that is shown and has changed in one of the runs."""
    names = dict.fromkeys(name for its in curves for name in its)
    columns = telling(known.get(name) or unknown(name) for name in names)
    return [
        column
        for column in columns
        if column.shown
        and column.name not in ACROSS
        and any(len(set(its.get(column.name, ())) - {None}) > 1 for its in curves)
    ]


def scenario_of(path: Path) -> dict[str, Any]:
    """The data of a run's ``scenario.yaml``; nothing where no run has begun.

    Raises:
        IntegrityError: it is damaged.
    """
    from simfl.scenario.reader import read

    if is_finished(path):
        stored = Stored.open(path)
    elif any((path / name).exists() for name in (SCENARIO, BEGUN)):
        stored = Stored.begun(path)
    else:
        return {}
    try:
        value = read(stored.read(SCENARIO).decode(), SCENARIO).value
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _columns(path: Path) -> dict[str, Column]:
    """What describes a run's columns; those of others while it plays, or where it is damaged, which its row says."""
    try:
        return Stored.open(path).columns() if is_finished(path) else described()
    except SimflError:
        return described()


def _damaged(run: dict[str, Any], damages: Sequence[str]) -> None:
    """Adds to a run's row what else of it is damaged."""
    if damages:
        run["error"] = "; ".join(dict.fromkeys(filter(None, (run["error"], *damages))))
