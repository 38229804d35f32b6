"""A finished run with more rounds: what it left to go on from, and the beginning of the run that goes on from there."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simfl.core.errors import IntegrityError, ScenarioError
from simfl.core.registration.protocol import is_foreign, is_plugin
from simfl.core.storage.disk import open_regular, write_atomically
from simfl.results import checkpoint
from simfl.results.file_names import LAST, SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.tables import csv_bytes
from simfl.scenario import Scenario
from simfl.scenario.plugin_files import Trust
from simfl.scenario.resolution import walk
from simfl.scenario.yaml.places import dotted_key
from simfl.training.sgd_rule import RunLength, Stop

TABLE, DIGEST = "rounds.csv", "digest"
"""In LAST: that table as it was at the checkpoint, before its privacy columns were filled in; and whose it is."""


def keep_last(folder: Path, digest: str) -> None:
    """Keeps the newest checkpoint of a run that ends, with what its tables lose at the end; nothing without one."""
    for path in checkpoint.checkpoint_files(folder / "checkpoint")[:1]:
        with suppress(IntegrityError):  # nobody needs it but who goes on
            arrays, marks = checkpoint.load(path)
            with open_regular(folder / "rounds.csv.part") as file:
                arrays[TABLE] = np.frombuffer(file.read(marks["rounds.csv"][0]), dtype=np.uint8)
            write_atomically(folder / LAST, checkpoint.content({**arrays, DIGEST: np.array(digest)}, marks))


def check_longer(finished: Path, now: Scenario) -> None:
    """Looks whether a scenario is that of a finished run, and only ends later.

    Raises:
        ScenarioError: something else differs, or it ends earlier.
        IntegrityError: the finished run is damaged, or what it was made of has changed since.
    """
    results = ResultsFolder.open(finished)
    results.check()
    before = Scenario.load(finished / SCENARIO, trust=Trust(False))
    if before.digest != results.summary["digest"]:
        raise IntegrityError(
            f"{finished}: a file, plugin or version of simfl that it is made of has changed since the run"
        )
    ended, longer = before.training, now.training
    if not (isinstance(ended, RunLength) and isinstance(longer, RunLength)):
        raise ScenarioError("training", f"rule '{longer.name}' has ends of its own, and no later one is known")
    none = {"rounds": None, "aggregations": None, "stop": Stop()}
    endless = [replace(each, training=replace(each.training, **none)) for each in (before, now)]
    if endless[0] != endless[1]:
        key, old, new = next(_differences(endless[0].plain(), endless[1].plain()), ("", "", ""))
        why = f"is {new!r}, and {old!r} in {finished}; only training.rounds, aggregations and stop may change"
        raise ScenarioError(key, why)
    limits = zip(ended.limits, longer.limits, strict=True)
    if any(new is not None and (old is None or new < old) for old, new in limits):
        raise ScenarioError("training.rounds", f"may end the run earlier than {finished}; give as many, or more")


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two resolved scenarios differ: the key, and what stands there in each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path, old, new


def go_on_from(finished: Path, folder: Path, scenario: Scenario, tables: Mapping[str, Sequence[str] | None]) -> str:
    """Puts the last checkpoint of a finished run, and its tables so far, into the folder of one that goes on.

    Args:
        finished: of the finished run.
        folder: of the run that goes on, which has begun and has no checkpoint.
        scenario: of it.
        tables: that it fills, with their columns.

    Returns:
        Why it has to start from the first round instead; empty = it need not.
    """
    for path, plugin in walk(scenario):
        if is_plugin(plugin) and is_foreign(plugin):
            return f"{dotted_key(path)} '{plugin.name}' may depend on how many rounds there are"
    if not (finished / LAST).exists():
        return f"{finished} has no {LAST}"
    try:
        arrays, marks = checkpoint.load(finished / LAST)
        files = {name: _part(finished / name, size, tables[name]) for name, (size, _) in marks.items()}
        files["rounds.csv"] = arrays.pop(TABLE).tobytes()
        if str(arrays.pop(DIGEST)) != ResultsFolder.open(finished).summary["digest"] or files.keys() != tables.keys():
            raise IntegrityError(f"{finished / LAST}: is of another run")
    except (IntegrityError, OSError, KeyError) as error:
        return str(error)
    for name, data in files.items():
        write_atomically(folder / f"{name}.part", data)
    checkpoint.save(folder / "checkpoint", int(arrays["rounds"]), arrays, marks)
    return ""


def _part(path: Path, size: int, columns: Sequence[str] | None) -> bytes:
    """The beginning of a table; its header where a finished run kept no empty table."""
    if not path.exists():
        return csv_bytes([columns] if columns else ())
    with open_regular(path) as file:
        return file.read(size)
