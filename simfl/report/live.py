"""How far a running run, sweep or comparison has come, read from the tables that grow on disk."""

import csv
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simfl.columns import Column, described, document, telling, unknown
from simfl.errors import SimflError
from simfl.report.axes import JOINT, labels
from simfl.report.reading import index_of, place_of, runs_below

__all__ = ["Watched"]

ACROSS = "round", "time_s"
"""What curves are drawn against."""

POINTS = 300
"""Points of a curve that are told at most."""


@dataclass
class Watched:
    """A folder that is looked at again and again; what is finished is read once.

    Args:
        folder: of a run, a sweep or a comparison, or one that holds runs.
    """

    folder: Path
    _done: dict[Path, dict[str, Any]] = field(default_factory=dict)

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
            "title": _scenario(found[0][0]).get("name") or self.folder.resolve().parent.name,
            "finished": all(run["state"] in ("done", "failed") for run in runs),
            "runs": runs,
            "shown": shown_label,
            **_curves(_rows(shown), described(shown)),
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
        return [(path, path.name) for path in runs_below(self.folder, "scenario.yaml")]

    def _run(self, path: Path, label: str) -> dict[str, Any]:
        if path in self._done:
            return self._done[path]
        run: dict[str, Any] = {"label": label, "digest": path.name, "state": "waiting", "round": 0, "rounds": None,
                               "accuracy": None, "time_s": None, "error": None}  # fmt: skip
        if (failure := _json(path / "failed.json")) and not (path / "summary.json").exists():
            run |= {"state": "failed", "error": str(failure.get("error", ""))}
        elif summary := _json(path / "summary.json"):
            rounds = summary.get("rounds")
            run |= {"state": "done", "round": rounds, "rounds": rounds, "accuracy": summary.get("test_accuracy"),
                    "time_s": summary.get("time_s")}  # fmt: skip
            self._done[path] = run
        elif (path / "rounds.csv.part").exists():
            rows = _rows(path)
            run |= {"state": "playing", "rounds": _planned(path), "round": len(rows), "time_s": _last(rows, "time_s"),
                    "accuracy": _last(rows, "test_accuracy")}  # fmt: skip
        return run


def _rows(path: Path) -> list[dict[str, str]]:
    """The whole lines of ``rounds.csv``, or of what there is of it: its last line may be half written."""
    for name in ("rounds.csv", "rounds.csv.part"):
        try:
            text = (path / name).read_text(encoding="utf-8")
        except OSError:
            continue
        return list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))
    return []


def _last(rows: list[dict[str, str]], column: str) -> float | None:
    return next((float(row[column]) for row in reversed(rows) if row.get(column)), None)


def _number(cell: str | None) -> float | None:
    """None for an empty cell and for a loss that was no number."""
    return None if cell in ("", None, "nan") else float(cell)


def _curves(rows: list[dict[str, str]], known: dict[str, Column]) -> dict[str, Any]:
    """Every column of ``rounds.csv`` that is shown and has changed, and what it means."""
    every = -(-len(rows) // POINTS) or 1
    kept = rows[::every] + (rows[-1:] if (len(rows) - 1) % every else [])
    curves = {name: [_number(row.get(name)) for row in kept] for name in (rows or [{}])[0]}
    columns = telling(known.get(name) or unknown(name) for name in curves)
    columns = [c for c in columns if c.shown and c.name not in ACROSS and len(set(curves[c.name]) - {None}) > 1]
    shown = [*ACROSS, *(column.name for column in columns)]
    return {"curves": {name: curves.get(name, []) for name in shown}, "columns": document(columns)}


def _planned(path: Path) -> int | None:
    """The rounds that the scenario asks for, None where something else ends the run."""
    rounds = _scenario(path).get("training", {}).get("rounds")
    return rounds if isinstance(rounds, int) else None


def _scenario(path: Path) -> dict[str, Any]:
    from simfl.scenario.reader import read

    try:
        value = read((path / "scenario.yaml").read_text(encoding="utf-8"), "scenario.yaml").value
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
