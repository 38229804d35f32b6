"""Wires a scenario into a world, plays it and writes its results; resumes what was interrupted."""

import csv
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simfl import checkpoint
from simfl.accounting import extra_columns
from simfl.agents import SERVERS, Measuring, Parts, Round, Server
from simfl.cache import bypassed
from simfl.clients import write_clients
from simfl.columns import ROUND_COLUMNS
from simfl.disk import locked, refuse_link, write_atomically
from simfl.errors import BusyError, IntegrityError
from simfl.finishing import cell, finish, round_cells
from simfl.metrics import Tally
from simfl.rng import Streams
from simfl.scenario import Scenario
from simfl.selection.base import shuffled
from simfl.selection.theory import theory
from simfl.stored import OWN, SCENARIO, SUMMARY, Stored, is_finished
from simfl.timeline import write_timeline
from simfl.trace import ATTACKS, FACTS, JOBS, PARTICIPATION, PEERS, PHASES, ROUNDS, Table
from simfl.world import World

__all__ = ["run", "verify", "Finished", "build"]

LOCK = ".lock"
"""In a run's folder; whoever plays the run holds it."""

CHECKPOINTS = 50
"""Checkpoints in a run: one every rounds // CHECKPOINTS rounds (at least 1)."""

OPEN_END = 10_000
"""Rounds taken for that where nobody knows how many there will be."""

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Finished:
    """A run whose results are on disk.

    Attributes:
        path: the results folder.
        digest: the scenario's digest, also the folder's name.
        summary: the contents of ``summary.json``.
        reused: True if the folder was there already and nothing was played.
    """

    path: Path
    digest: str
    summary: dict[str, Any]
    reused: bool


def build(scenario: Scenario) -> Parts:
    """Everything drawn or loaded before the first round.

    Raises:
        SimflError: a data file, extra or network path is missing or impossible.
    """
    streams = Streams(scenario.seed)
    devices, n = scenario.devices, scenario.clients
    policy = scenario.selection
    if policy.shuffle:
        policy = shuffled(policy, streams("assignment").permutation(n))
    links = scenario.network.build(scenario, streams)
    return Parts(
        clients=n,
        streams=streams,
        links=links,
        available=devices.availability.build(scenario, streams, links.names),
        computing=devices.computation.build(scenario, streams),
        failing=devices.failure.build(scenario, streams),
        policy=policy,
        rule=scenario.training,
        learner=scenario.learning.build(scenario, streams),
        evaluate_every=scenario.learning.evaluate_every,
        protocol=scenario.secagg,
        stages=scenario.privacy.stages,
        observers=scenario.attacks,
        metrics=scenario.metrics,
    )


def run(
    scenario: Scenario,
    out: Path,
    *,
    resume: bool = True,
    force: bool = False,
    timeline: Path | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Plays a scenario into ``out/<name>/<digest>/``; a complete folder is reused.

    Args:
        scenario: what to play.
        out: root of all results.
        resume: go on from the last checkpoint of an interrupted run, if there is one; else start anew.
        force: play again even if the folder is complete.
        timeline: also write a Chrome/Perfetto trace to this file.
        progress: called with (rounds done, rounds, simulated seconds) after every round; 0 rounds = not known.

    Raises:
        IntegrityError: a file of the complete folder is damaged, or resuming found only damaged checkpoints.
        BusyError: another process is playing it.
        SimflError: the scenario cannot be built.
    """
    folder = out / scenario.name / scenario.digest
    events = scenario.trace == "events" or timeline is not None
    refuse_link(folder)
    finished = None if force else _complete(folder, scenario, events)
    if finished is None:
        parts = build(scenario)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / LOCK, f"{folder}: another process is playing this run"):
            finished = None if force else _complete(folder, scenario, events)  # by now, by another process
            if finished is None:
                finished = _played(scenario, parts, folder, events, anew=force or not resume, progress=progress)
    elif list(_leftovers(folder)):  # of a kill between the summary and the tidying
        with suppress(BusyError, OSError), locked(folder / LOCK, f"{folder}: its run is being finished"):
            _tidy(folder)
    if timeline is not None:
        names = scenario.network.build(scenario, Streams(scenario.seed)).names
        write_timeline(folder / "events.jsonl", timeline, names)
    return finished


def verify(folder: Path) -> dict[str, bool]:
    """Plays a finished run again elsewhere, from the sources of its data; for every file, whether it came out the same.

    Raises:
        SimflError: the folder holds no finished run.
        IntegrityError: a stored file does not match the digest in its summary.
    """
    stored = Stored.open(folder)
    stored.check()
    scenario = Scenario.load(folder / SCENARIO)
    with tempfile.TemporaryDirectory() as scratch, bypassed():
        timeline = Path(scratch) / "timeline.json" if "events.jsonl" in stored else None
        again = Stored.open(run(scenario, Path(scratch), timeline=timeline).path)
    unnamed = {name for name in OWN if name not in again.files and (folder / name).exists()} - {SUMMARY, "machine.json"}
    tables = sorted((stored.files.keys() | again.files.keys() | unnamed) - {SCENARIO})
    return {
        SUMMARY: _values(stored) == _values(again),
        SCENARIO: (folder / SCENARIO).read_bytes() == scenario.to_yaml(folder).encode(),
        **{name: stored.files.get(name) == again.files.get(name) and name in again for name in tables},
    }


def _values(run: Stored) -> dict[str, Any]:
    return {key: value for key, value in run.summary.items() if key != "sha256"}


def _complete(folder: Path, scenario: Scenario, events: bool) -> Finished | None:
    """The run that is complete already; None where there is none, or no events though they are asked for.

    Raises:
        IntegrityError: a file of it is damaged.
    """
    if not is_finished(folder):
        return None
    stored = Stored.open(folder)
    if stored.summary["digest"] != scenario.digest:
        raise IntegrityError(f"{folder / SUMMARY}: of another run, {stored.summary['digest']}; --force replaces it")
    stored.check()
    if events and "events.jsonl" not in stored:
        return None
    return Finished(folder, scenario.digest, stored.summary, True)


def _played(
    scenario: Scenario, parts: Parts, folder: Path, events: bool, anew: bool, progress: Progress | None
) -> Finished:
    refuse_link(folder / "checkpoint")
    if anew or is_finished(folder):
        _clear(folder)
    write_atomically(folder / SCENARIO, scenario.to_yaml(folder).encode())
    write_clients(folder, parts)
    return Finished(folder, scenario.digest, _Run(scenario, parts, folder, events, progress).play(), False)


def _leftovers(folder: Path) -> Iterator[Path]:
    """What only an unfinished run needs."""
    yield from folder.glob("checkpoint")
    yield from folder.glob("*.part")
    for name in OWN:
        yield from folder.glob(f"{name}.*.tmp")


def _tidy(folder: Path) -> None:
    """Removes what only an unfinished run needs; a kill may have come before."""
    for left in list(_leftovers(folder)):
        if left.name == "checkpoint":
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink()


def _clear(folder: Path) -> None:
    """Removes a run's own files, and nothing that somebody else has put beside them."""
    (folder / SUMMARY).unlink(missing_ok=True)  # first: without it the run is not complete
    _tidy(folder)
    for name in OWN:
        (folder / name).unlink(missing_ok=True)


class _Run:
    """One play of a scenario: the server in its world, the tables it fills, the checkpoints it leaves."""

    def __init__(self, scenario: Scenario, parts: Parts, folder: Path, events: bool, progress: Progress | None) -> None:
        self.scenario, self.parts, self.folder, self.progress = scenario, parts, folder, progress
        self.rounds = parts.rule.most_rounds
        self.every = max(1, (self.rounds or OPEN_END) // CHECKPOINTS)
        self.row = (*ROUNDS, *(column.name for column in extra_columns(scenario)))
        self.columns = _tables(parts, self.row, events)
        self.tables: dict[str, Table] = {}
        self.measuring = Measuring(parts)
        self.server = self._start()

    def play(self) -> dict[str, Any]:
        """Plays to the end; the summary."""
        try:
            self.server.world.run(self.server.world.spawn(self.server.play()))
            return self._finish()
        finally:
            for table in self.tables.values():
                table.close()

    # -- beginning: anew, or where the last sound checkpoint lies ----------------------------------

    def _start(self) -> Server:
        found = checkpoint.stored(self.folder / "checkpoint")
        for path in found:
            try:
                state, marks = checkpoint.load(path)
                if set(marks) != set(self.columns):
                    raise IntegrityError(f"{path}: belongs to a run with other tables; play it again with --force")
                self.tables = {name: self._table(name, marks[name]) for name in self.columns}
            except IntegrityError as error:
                print(f"warning: {error}", file=sys.stderr)
                continue
            server = self._server(float(state["time_s"]))
            server.restore(state, self._tally(int(state["rounds"])))
            self.measuring.restore(state)
            return server
        if found:
            raise IntegrityError(f"{self.folder}: no checkpoint is usable; --force plays the run from the start")
        self.tables = {name: self._table(name, None) for name in self.columns}
        return self._server(0.0)

    def _table(self, name: str, keep: tuple[int, str] | None) -> Table:
        return Table(self.folder / name, self.columns[name], keep)

    def _server(self, start_s: float) -> Server:
        log = self.tables["events.jsonl"].append_json if "events.jsonl" in self.columns else None
        return SERVERS[self.parts.rule.server](self.parts, World(start_s), self._round, log)

    def _tally(self, rounds: int) -> Tally:
        """Participation so far, from the table that records it."""
        with open(self.folder / "participation.csv.part", newline="") as file:
            pairs = {(int(row["round"]), int(row["client"])) for row in csv.DictReader(file)}
        clients = np.fromiter((client for _, client in pairs), dtype=np.int64, count=len(pairs))
        return Tally.of(np.bincount(clients, minlength=self.parts.clients), rounds)

    # -- while it plays ----------------------------------------------------------------------------

    def _round(self, done: Round) -> None:
        tables, t = self.tables, done.number
        row = round_cells(done.row | self.measuring.after(done, self.server.model))
        tables["rounds.csv"].append([[row.get(column) for column in self.row]])
        tables["rounds.csv"].mark()  # so that who watches the run sees every round
        who = [] if done.aggregators is None else [done.aggregators.tolist()]
        tables["participation.csv"].append(zip(itertools.repeat(t), *who, done.clients.tolist(), done.weights.tolist()))
        tables["evaluation.csv"].append(
            (t, name, value) for name, value in row.items() if name not in self.row and value is not None
        )
        for name, rows in (("jobs.csv", done.jobs), ("phases.csv", done.phases)):
            if rows:
                tables[name].append(rows)
        for name, found in (("facts.csv", done.facts), ("attacks.csv", done.errors)):
            if found:
                tables[name].append((t, i, key, cell(it)) for i, each in enumerate(found) for key, it in each.items())
        if (done.number + 1) % self.every == 0 and not done.last:
            marks = {name: table.mark() for name, table in self.tables.items()}
            checkpoint.save(
                self.folder / "checkpoint", done.number + 1, self.server.state() | self.measuring.state(), marks
            )
        if self.progress is not None:
            self.progress(done.number + 1, self.rounds or 0, done.row["time_s"])

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self) -> dict[str, Any]:
        by_rounds = not (self.parts.rule.asynchronous or self.parts.rule.many_aggregators)
        theoretical = theory(self.scenario)["expected_cardinality"] if by_rounds else None
        model = self.server.model if self.parts.learner.dimension else None
        no_skill = self.parts.learner.no_skill_accuracy()
        columns = (*ROUND_COLUMNS, *extra_columns(self.scenario))
        summary = finish(self.folder, self.scenario, self.tables, self.server.tally.rounds, model, theoretical, columns,
                         no_skill, self.parts.learner.samples)  # fmt: skip
        _tidy(self.folder)
        return summary


def _tables(parts: Parts, row: tuple[str, ...], events: bool) -> dict[str, tuple[str, ...] | None]:
    """The tables of a run, by file name, with their columns; None = JSON lines."""
    tables: dict[str, tuple[str, ...] | None] = {
        "rounds.csv": row,
        "participation.csv": PEERS if parts.rule.many_aggregators else PARTICIPATION,
        "evaluation.csv": ("round", "name", "value"),
    }
    if parts.rule.asynchronous:
        tables["jobs.csv"] = JOBS
    if parts.protocol.phases:
        tables["phases.csv"] = PHASES
    if parts.stages:
        tables["facts.csv"] = FACTS
    if parts.observers:
        tables["attacks.csv"] = ATTACKS
    if events:
        tables["events.jsonl"] = None
    return tables
