"""From folders to a :class:`~simfl.report.study.Study`: a run, a sweep's or comparison's index, or just many runs."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.report.axes import JOINT, labels, natural, varying
from simfl.report.study import COLOURED, EMPHASISED, Group, PlannedRun, Run, Study
from simfl.results.file_names import SCENARIO, SUMMARY, is_finished, is_swept
from simfl.results.folder import ResultsFolder, no_such_folder

DEEPEST = 3
"""Folders below the named one that are searched for runs."""


def read_study(paths: Iterable[Path | str]) -> Study:
    """What lies in the folders of runs, sweeps or comparisons, or that hold runs, taken together.

    Raises:
        SimflError: there is no finished run.
    """
    paths_read = [Path(path) for path in paths]
    document: JsonObject = {}
    if len(paths_read) == 1 and is_swept(paths_read[0]):
        axes, members = _planned_runs(paths_read[0])
        results = ResultsFolder.open_sweep(paths_read[0])
        document = json.loads(results.read("comparison.json")) if "comparison.json" in results else {}
    else:
        runs = (run for folder in paths_read for run in (_members(folder) if is_swept(folder) else _runs(folder)))
        axes, members = _runs_by_scenario({run.path.resolve(): run for run in runs})
    if not any(member.run for member in members):
        raise SimflError(f"{', '.join(map(str, paths_read)) or 'nothing'}: no finished run here")
    groups = _name_by_comparison(_group_by_values(axes, members), document)
    chosen = [group.label for group in groups]
    named = [each["choice"] for each in document.get("choices", ())
             if document.get("baseline") in (each["choice"], each.get("name"))]  # fmt: skip
    baseline = next((chosen.index(label) for label in named if label in chosen), 0)
    groups = _assign_colours(_shorten_labels(groups))
    return Study(
        title=_title(groups),
        axes=axes,
        groups=groups,
        members=tuple(members),
        baseline=groups[baseline].label,
        target=document.get("target_accuracy"),
        target_rule=document.get("target_rule", ""),
        chosen=tuple(document["chosen"]) if "chosen" in document else None,
    )


# -- members ---------------------------------------------------------------------------------------


def _planned_runs(folder: Path) -> tuple[tuple[str, ...], list[PlannedRun]]:
    """The members of an ``index.csv``: ``digest``, a column for each key, ``seed``, ``status``, ..., ``error``.

    The runs' folders lie beside the index's.
    """
    axes, rows = index_of(folder)
    members = []
    for row in rows:
        values = {axis: row[axis] for axis in axes}
        path, status, run = place_of(folder, row["digest"]), row["status"], None
        if status == "done" and not is_finished(path):
            if (path / SCENARIO).exists():
                ResultsFolder.open_begun(path)  # it is being run again
            status = "gone"
        elif status == "done":
            run = Run.open(path)
        members.append(PlannedRun(row["digest"], values, int(row["seed"]), status, row.get("error") or None, run))
    return axes, members


def index_of(folder: Path) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    """The keys that vary in the ``index.csv`` of a sweep or comparison, and its rows.

    Raises:
        SimflError: it cannot be read.
        IntegrityError: it is damaged.
    """
    path = ResultsFolder.open_sweep(folder).file("index.csv")
    try:
        with open(path, newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            rows, columns = list(table), list(table.fieldnames or ())
    except (OSError, ValueError, csv.Error) as error:
        raise SimflError(f"{path}: cannot be read ({error})") from None
    missing = [name for name in ("digest", "seed", "status") if name not in columns]
    if missing:
        raise SimflError(f"{path}: not the index of a sweep (no column {', '.join(missing)})")
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values() or not row["seed"].removeprefix("-").isdecimal():
            raise SimflError(f"{path}:{line}: not a row of {len(columns)} cells with a whole number as seed")
    keys = columns[columns.index("digest") + 1 : columns.index("seed")]
    return tuple(key for key in keys if len({row[key] for row in rows}) > 1), rows


def place_of(folder: Path, digest: str) -> Path:
    """The folder of a run of a sweep: they lie beside the sweep's own."""
    if digest != Path(digest).name:
        raise SimflError(f"{folder / 'index.csv'}: {digest!r} is no digest")
    return folder.resolve().parent / digest


def _members(folder: Path) -> list[Run]:
    """The finished runs of a sweep or comparison."""
    return [member.run for member in _planned_runs(folder)[1] if member.run is not None]


def _runs(folder: Path) -> list[Run]:
    if not folder.is_dir():
        raise SimflError(f"{folder}: {no_such_folder(folder)}")
    return [Run.open(path) for path in runs_below(folder, SUMMARY)]


def runs_below(folder: Path, name: str) -> list[Path]:
    """The folder itself if it holds such a file, else the nearest ones below it that do."""
    for depth in range(DEEPEST + 1):
        if files := sorted(folder.glob("[!.]*/" * depth + name)):  # hidden folders hold what is being removed
            return [path.parent for path in files]
    return []


def _runs_by_scenario(runs: dict[Path, Run]) -> tuple[tuple[str, ...], list[PlannedRun]]:
    """Members of runs that no index describes: they say themselves in what they differ."""
    axes, values = varying([run.scenario for run in runs.values()])
    keys = tuple(axis for axis in axes if axis != "plugins")  # whose files other keys tell apart
    if len({tuple(value[axis] for axis in keys) for value in values}) == len({(*value.values(),) for value in values}):
        axes = keys
    members = [
        PlannedRun(run.digest, value, run.seed, "done", None, run)
        for run, value in zip(runs.values(), values, strict=True)
    ]
    return axes, sorted(members, key=lambda m: (*(natural(m.values[axis]) for axis in axes), m.seed))


# -- groups ----------------------------------------------------------------------------------------


def _group_by_values(axes: Sequence[str], members: Sequence[PlannedRun]) -> tuple[Group, ...]:
    together: dict[tuple[str, ...], list[Run]] = {}
    for member in members:
        if member.run is not None:
            together.setdefault(tuple(member.values[axis] for axis in axes), []).append(member.run)
    values = [dict(zip(axes, key, strict=True)) for key in together]
    names = labels(axes, values)
    if not axes:
        names = [str(runs[0].summary.get("name", "run")) for runs in together.values()]
    twice = Counter(names)
    names = [
        name if twice[name] == 1 else ", ".join(f"{axis}={value[axis]}" for axis in axes)
        for name, value in zip(names, values, strict=True)
    ]
    return tuple(
        Group(name, value, tuple(sorted(runs, key=lambda run: run.seed)))
        for name, value, runs in zip(names, values, together.values(), strict=True)
    )


def _assign_colours(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups with the numbers of their colours; of too many, only the most accurate get one."""
    chosen: Any = range(len(groups))
    if len(groups) > COLOURED:
        chosen = sorted(sorted(chosen, key=lambda i: -_accuracy(groups[i]))[:EMPHASISED])
    numbers = {place: number for number, place in enumerate(chosen)}
    return tuple(replace(group, number=numbers.get(place)) for place, group in enumerate(groups))


def _accuracy(group: Group) -> float:
    values = [run.summary.get("test_accuracy") or 0.0 for run in group.runs]
    return sum(values) / len(values)


def _name_by_comparison(groups: tuple[Group, ...], document: JsonObject) -> tuple[Group, ...]:
    """The groups in the order of a comparison's configurations, and called like them."""
    choices = {str(choice["choice"]): choice["values"].items() for choice in document.get("choices", ())}

    def choice(group: Group) -> str | None:
        return next((name for name, values in choices.items() if values <= group.values.items()), None)

    names = {group.label: choice(group) for group in groups}
    if not choices or None in names.values() or len(set(names.values())) < len(groups):
        return groups
    order = list(choices)
    renamed = [replace(group, label=str(names[group.label])) for group in groups]
    return tuple(sorted(renamed, key=lambda group: order.index(group.label)))


def _shorten_labels(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Lists by what they name, where that leaves all names different."""
    full = [group.label for group in groups]
    names = [JOINT.join(_names_in_list(word) for word in label.split(JOINT)) for label in full]
    if len(set(names)) < len(names):
        names = full
    return tuple(replace(group, label=label) for group, label in zip(groups, names, strict=True))


def _names_in_list(word: str) -> str:
    """A list, or an object, of a grid by the names in it: ``[{name: clipping, norm: 1}]`` is ``clipping``."""
    value = re.sub(r"^[\w.]+=", "", word)
    if not value.startswith(("[", "{")):
        return word
    names = re.findall(r"""\bname"?: *"?(\w+)""", value)
    return word.removesuffix(value) + ("+".join(names) or ("none" if value == "[]" else value))


def _title(groups: tuple[Group, ...]) -> str:
    names = dict.fromkeys(str(run.summary.get("name", "run")) for group in groups for run in group.runs)
    return " + ".join(names)
