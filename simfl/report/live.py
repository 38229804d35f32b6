"""How far a running run, sweep or comparison has come, read from the tables that grow on disk."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simfl.columns import FILE, Column, described, document, telling, unknown
from simfl.errors import SimflError
from simfl.report.axes import JOINT, labels
from simfl.report.growing import Growing
from simfl.report.reading import index_of, place_of, runs_below
from simfl.stored import SCENARIO, Stored, is_finished

__all__ = ["Watched"]

ACROSS = "round", "time_s"
"""What curves are drawn against."""


@dataclass
class Watched:
    """A folder that is looked at again and again; what is finished is read once.

    Args:
        folder: of a run, a sweep or a comparison, or one that holds runs.
    """

    folder: Path
    _done: dict[Path, dict[str, Any]] = field(default_factory=dict)
    _tables: dict[Path, Growing] = field(default_factory=dict)
    _scenarios: dict[Path, dict[str, Any]] = field(default_factory=dict)

    def look(self) -> dict[str, Any]:
        """The state now, as JSON data: ``title``, ``finished``, ``runs``, the ``curves`` of a run that plays and the
        ``columns`` that they show.

        Raises:
            SimflError: there is no run, finished or not.
        """
        found = self._members()
        if not found:
            raise SimflError(f"{self.folder}: no run here, finished or not")
        runs = [self._run(path, label) for path, label in found]
        playing = [(run, path) for run, (path, _) in zip(runs, found, strict=True) if run["state"] == "playing"]
        _, shown = playing[-1] if playing else (runs[-1], found[-1][0])
        shown_label = next(label for path, label in found if path == shown)
        return {
            "title": self._scenario(found[0][0]).get("name") or self.folder.resolve().parent.name,
            "finished": all(run["state"] in ("done", "failed") for run in runs),
            "runs": runs,
            "shown": shown_label,
            **_curves(self._table(shown).curves(), described(shown)),
        }

    def _members(self) -> list[tuple[Path, str]]:
        """Folders of runs, and their names."""
        if (self.folder / "index.csv").exists():
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
                               "accuracy": None, "time_s": None, "error": None, "diverged": None}  # fmt: skip
        if is_finished(path):
            run |= _ended(path)
            self._done[path] = run
        elif failure := _json(path / "failed.json"):
            run |= {"state": "failed", "error": str(failure.get("error", ""))}
        elif (path / "rounds.csv.part").exists():
            table = self._table(path)
            run |= {"state": "playing", "rounds": self._planned(path), "round": table.rows,
                    "time_s": table.last("time_s"), "accuracy": table.last("test_accuracy"),
                    "diverged": table.diverged}  # fmt: skip
        return run

    def _table(self, path: Path) -> Growing:
        table = self._tables.setdefault(path, Growing(path))
        table.look()
        return table

    def _planned(self, path: Path) -> int | None:
        """The rounds that the scenario asks for, None where something else ends the run."""
        training = self._scenario(path).get("training")
        rounds = training.get("rounds") if isinstance(training, dict) else None
        return rounds if isinstance(rounds, int) else None

    def _scenario(self, path: Path) -> dict[str, Any]:
        if path not in self._scenarios and (found := _scenario(path)):
            self._scenarios[path] = found
        return self._scenarios.get(path, {})


def _ended(path: Path) -> dict[str, Any]:
    """The end of a run that is complete, or what is damaged in it."""
    try:
        stored = Stored.open(path)
        for name in {"rounds.csv", FILE} & stored.files.keys():
            stored.file(name)
    except SimflError as error:
        return {"state": "failed", "error": str(error)}
    summary = stored.summary
    return {"state": "done", "round": summary["rounds"], "rounds": summary["rounds"],
            "accuracy": summary.get("test_accuracy"), "time_s": summary.get("time_s"),
            "diverged": summary.get("diverged_round")}  # fmt: skip


def _curves(curves: dict[str, list[float | None]], known: dict[str, Column]) -> dict[str, Any]:
    """Every column of ``rounds.csv`` that is shown and has changed, and what it means."""
    columns = telling(known.get(name) or unknown(name) for name in curves)
    columns = [c for c in columns if c.shown and c.name not in ACROSS and len(set(curves[c.name]) - {None}) > 1]
    shown = [*ACROSS, *(column.name for column in columns)]
    return {"curves": {name: curves.get(name, []) for name in shown}, "columns": document(columns)}


def _scenario(path: Path) -> dict[str, Any]:
    from simfl.scenario.reader import read

    try:
        value = read((path / SCENARIO).read_text(encoding="utf-8"), SCENARIO).value
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
