"""One run of a scenario: the server in its world, the tables it fills, the checkpoints it leaves."""

import csv
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simfl.agents.aggregation.attack_runner import finalise_attacks
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.metric_runner import MetricRunner
from simfl.agents.server_choice import make_server
from simfl.agents.servers import Server
from simfl.agents.world import World
from simfl.attacks.base import Finding, ServerView
from simfl.core.columns import ROUND_COLUMNS
from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER, Floats, Vectors, under
from simfl.metrics.participation import Tally
from simfl.results import checkpoint
from simfl.results.file_names import BEGUN, JOINED, OWN, PRUNED, UPDATES
from simfl.results.run_files import MESSAGES, OnRound, RoundRow, message_rows, read_rows, round_row
from simfl.results.tables import (
    AGGREGATES,
    AGGREGATIONS,
    ATTACKS,
    FACTS,
    JOBS,
    PARTICIPATION,
    PEERS,
    PHASES,
    ROUNDS,
    VECTORS,
    TableWriter,
)
from simfl.runs.clients_table import left_out, write_accuracies
from simfl.runs.edge_tables import write_edge
from simfl.runs.finalise import cell, finish, round_cells
from simfl.runs.longer_run import go_on_from, keep_last
from simfl.scenario import Scenario
from simfl.scenario.column_owners import plugin_columns
from simfl.selection.theory.expected_cardinality import theory
from simfl.training.base import Rule

CHECKPOINTS = 50
"""The next checkpoint is due after one in so many rounds: of all or, where only something else ends the run (a target
accuracy, say) and nobody knows their number, of those so far; but after one at the earliest.
"""

KEPT = "outside_kept"
"""In a checkpoint: the updates of remote clients that were on disk."""

Progress = Callable[[int, int, float], None]
Phase = Callable[[str, int], None]


class Simulation:
    """One run of a scenario: the server in its world, the tables it fills, the checkpoints it leaves."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Components[Rule],
        folder: Path,
        events: bool,
        progress: Progress | None,
        begins: Phase,
        on_round: OnRound | None = None,
        goes_on: Path | None = None,
        extendable: bool = False,
    ) -> None:
        self.scenario, self.parts, self.folder, self.progress = scenario, parts, folder, progress
        self.begins, self.on_round, self.extendable = begins, on_round, extendable
        self.raised: BaseException | None = None  # by on_round
        self.rounds = parts.rule.most_rounds
        self.row = (*ROUNDS, *(column.name for column in plugin_columns(scenario)))
        self.columns = _tables(parts, self.row, events)
        if goes_on is not None and not checkpoint.checkpoint_files(folder / "checkpoint"):
            if anew := go_on_from(goes_on, folder, scenario, self.columns):
                print(f"note: the run begins with its first round: {anew}", file=sys.stderr)
        self.tables: dict[str, TableWriter] = {}
        self.measuring = MetricRunner(parts)
        self.server = self._start()
        self.next_checkpoint = self._next(self.server.tally.rounds)

    def simulate(self) -> JsonObject:
        """Runs to the end; the summary."""
        try:
            self.begins("running", self.server.tally.rounds)
            if self.on_round is not None:  # of the rounds before the checkpoint from which the run goes on
                for row in read_rows(self.folder / "rounds.csv.part", self.server.tally.rounds):
                    self.on_round(row)
            self.server.world.run(self.server.world.spawn(self.server.run()))
            self.begins("finishing", self.server.tally.rounds)
            return self._finish()
        except BaseException:
            if self.raised is not None:  # simpy may have copied it on its way
                raise self.raised from self.raised.__cause__
            raise
        finally:
            for table in self.tables.values():
                table.close()

    # -- beginning: anew, or where the last sound checkpoint lies ----------------------------------

    def _start(self) -> Server[Rule]:
        paths = checkpoint.checkpoint_files(self.folder / "checkpoint")
        for path in paths:
            try:
                state, marks = checkpoint.load(path)
                if set(marks) != set(self.columns):
                    raise IntegrityError(f"{path}: belongs to a run with other tables; run it again with --force")
                remote, expected = self.scenario.means.remote_clients, int(state.get(KEPT, 0))
                if remote is not None and (on_disk := remote.stored_updates()) < expected:
                    why = f"{on_disk} updates, {expected} at the checkpoint; its end is gone"
                    raise IntegrityError(f"{self.folder / UPDATES}.part: {why}")  # nobody would be asked for them again
                self.tables = {name: self._table(name, marks[name]) for name in self.columns}
            except IntegrityError as error:
                which = "" if path.name in str(error) else f"checkpoint {path.name} is not used: "
                print(f"warning: {which}{error}", file=sys.stderr)
                continue
            try:
                server = self._server(float(state["time_s"]))
                for lacking in sorted(server.state().keys() - state.keys()):
                    if not lacking.startswith("version/"):  # the models that jobs under way begin with: others by now
                        raise KeyError(lacking)
                server.restore(state, self._tally(int(state["rounds"])))
                self.measuring.restore(state)
            except KeyError as error:
                message = f"{path}: has no {error}, it is of another version of simfl or of a plugin"
                raise IntegrityError(f"{message}; --force starts the run anew") from None
            return server
        if paths:
            raise IntegrityError(f"{self.folder}: no checkpoint is usable; --force starts the run anew")
        self.tables = {name: self._table(name, None) for name in self.columns}
        return self._server(0.0)

    def _table(self, name: str, keep: tuple[int, str] | None) -> TableWriter:
        return TableWriter(self.folder / name, self.columns[name], keep)

    def _server(self, start_s: float) -> Server[Rule]:
        log = self.tables["events.jsonl"].append_json if "events.jsonl" in self.columns else None
        return make_server(self.parts, World(start_s), self._round, log)

    def _tally(self, rounds: int) -> Tally:
        """Participation so far, from the table that records it."""
        with open(self.folder / "participation.csv.part", newline="") as file:
            rows = (row for row in csv.DictReader(file) if int(row.get("aggregator", SERVER)) >= SERVER)
            pairs = {(int(row["round"]), int(row["client"])) for row in rows}
        clients = np.fromiter((client for _, client in pairs), dtype=np.int64, count=len(pairs))
        history = None
        if self.parts.policy.reads_history:
            by_round = itertools.groupby(sorted(pairs), key=lambda pair: pair[0])
            history = [np.array([client for _, client in row], dtype=np.int32) for _, row in by_round]
        counts = np.bincount(clients, minlength=self.parts.clients)
        return Tally.of(counts, rounds, history, len({round_number for round_number, _ in pairs}))

    # -- while it runs -----------------------------------------------------------------------------

    def _round(self, done: RoundResult) -> None:
        tables, t = self.tables, done.number
        row = round_cells(done.row | self.measuring.after(done, self.server.model))
        tables["rounds.csv"].append([[row.get(column) for column in self.row]])
        tables["rounds.csv"].mark()  # so that who watches the run sees every round
        who = [] if done.aggregators is None else [done.aggregators.tolist()]
        if done.edges:
            who = [itertools.repeat(SERVER)]
        tables["participation.csv"].append(zip(itertools.repeat(t), *who, done.clients.tolist(), done.weights.tolist()))
        for edge in done.edges:
            write_edge(tables, edge, t if edge.averaged else t + 1)
        tables["participation.csv"].mark()
        tables["evaluation.csv"].append(
            (t, name, value) for name, value in row.items() if name not in self.row and value is not None
        )
        for name, rows in (("jobs.csv", done.jobs), ("phases.csv", done.phases)):
            if rows:
                tables[name].append(rows)
        if not done.edges:
            tables["messages.csv"].append(message_rows(t, done.transcripts))
        if done.seen is not None:
            self._record(done.seen)
        for name, values in (("facts.csv", done.facts), ("attacks.csv", done.errors)):
            last = [SERVER] if done.edges else []
            if values:
                tables[name].append(
                    (t, i, key, cell(it), *last) for i, each in enumerate(values) for key, it in each.items()
                )
        if done.number + 1 >= self.next_checkpoint and not done.last and self.server.stores_state:
            self._save_checkpoint(done.number + 1)
        if self.progress is not None:
            self.progress(done.number + 1, self.rounds or 0, done.row["time_s"])
        if self.on_round is not None:
            self._tell(self.on_round, round_row(self.row, [row.get(column) for column in self.row]), done)

    def _save_checkpoint(self, rounds: int) -> None:
        self.next_checkpoint = self._next(rounds)
        marks = {name: table.mark() for name, table in self.tables.items()}
        state = self.server.state() | self.measuring.state()
        if (remote := self.scenario.means.remote_clients) is not None:
            state[KEPT] = np.int64(remote.stored_updates())
        checkpoint.save(self.folder / "checkpoint", rounds, state, marks)

    def _tell(self, on_round: OnRound, row: RoundRow, done: RoundResult) -> None:
        """Hands a row to the callback; where that raises, the run goes on after this round when it is run again."""
        try:
            on_round(row)
        except BaseException as error:
            self.raised = error
            if not done.last and self.server.stores_state:
                self._save_checkpoint(done.number + 1)
            raise

    def _record(self, seen: ServerView) -> None:
        """What the server saw, so that it can be attacked later."""
        total, jobs = seen.total, {job.client: job for job in seen.jobs}
        members = [jobs[client] for client in total.clients.tolist()]
        assert total.shares is not None, "who sums fills them in"
        shares = total.shares.tolist()
        self.tables["aggregates.csv"].append(
            (seen.round, job.id, job.client, job.version, share) for job, share in zip(members, shares, strict=True)
        )
        shown: Any = () if seen.vectors is None else seen.vectors[np.isin(list(jobs), total.clients)]
        self.tables[VECTORS].append_vectors((seen.before, seen.read, *shown))

    def _next(self, rounds: int) -> int:
        """After how many rounds the next checkpoint is due, if there is one after so many."""
        return rounds + max(1, (self.rounds or rounds) // CHECKPOINTS)

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self) -> JsonObject:
        by_rounds = not (self.parts.rule.asynchronous or self.parts.rule.many_aggregators or self.parts.edges)
        theoretical = theory(self.scenario)["expected_cardinality"] if by_rounds else None
        model = self.server.model if self.parts.learner.dimension else None
        no_skill = self.parts.learner.evaluator.no_skill_accuracy()
        write_accuracies(self.folder, self.parts)
        if (remote := self.scenario.means.remote_clients) is not None:
            remote.finalise()
        columns = *ROUND_COLUMNS, *plugin_columns(self.scenario)
        observers, state = self.parts.observers, self.server.state() if self.parts.observers else {}
        observed = [under(f"observed/{i}", state) for i in range(len(observers))]
        if self.extendable and remote is None:
            keep_last(self.folder, self.scenario.digest)
        attack_results = finalise_attacks(observers, observed, self.parts.learner, self.parts.streams)
        learner, rounds = self.parts.learner, self.server.tally.rounds
        further = {**learner.computed_by, **left_out(self.parts)}
        summary = finish(self.folder, self.scenario, self.tables, rounds, model, theoretical, columns,
                         no_skill, learner.samples, attack_results, further)  # fmt: skip
        remove_leftovers(self.folder)
        return summary


def _tables(parts: Components[Rule], row: tuple[str, ...], events: bool) -> dict[str, tuple[str, ...] | None]:
    """The tables of a run, by file name, with their columns; None = JSON lines."""
    of_edge = ("aggregator",) if parts.edges else ()
    tables: dict[str, tuple[str, ...] | None] = {
        "rounds.csv": row,
        "participation.csv": PEERS if parts.rule.many_aggregators or parts.edges else PARTICIPATION,
        "evaluation.csv": ("round", "name", "value"),
        "messages.csv": (*MESSAGES, *of_edge),
    }
    if parts.edges:
        tables["aggregations.csv"] = AGGREGATIONS
    if parts.rule.asynchronous:
        tables["jobs.csv"] = JOBS
    protocol = parts.protocol
    hides = not (protocol.shows_updates or protocol.assumes)
    asks = parts.policy.asks or parts.policy.receipts(parts.clients) is not None
    if hides or not protocol.sums_whoever_comes or protocol.phases or protocol.joint or asks:
        tables["phases.csv"] = (*PHASES, *of_edge)
    if parts.stages:
        tables["facts.csv"] = (*FACTS, *of_edge)
    if parts.observers:
        tables["attacks.csv"] = ATTACKS
    if parts.records:
        tables |= {"aggregates.csv": AGGREGATES, VECTORS: None}
    if events:
        tables["events.jsonl"] = None
    return tables


def leftovers(folder: Path) -> Iterator[Path]:
    """What only an unfinished run needs."""
    yield from folder.glob("checkpoint")
    yield from folder.glob(JOINED)
    yield from folder.glob("*.part")
    yield from folder.glob(BEGUN)
    yield from folder.glob(PRUNED)
    for name in OWN:
        yield from folder.glob(f"{name}.*.tmp")


def remove_leftovers(folder: Path) -> None:
    """Removes what only an unfinished run needs; a kill may have come before."""
    for left in list(leftovers(folder)):
        if left.name in ("checkpoint", JOINED) and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink()


# -- A scenario run in memory: no tables, no checkpoints; for shadow models and studies of many small runs -----


@dataclass(frozen=True)
class RunInMemory:
    """What a run in memory left behind.

    Attributes:
        model: the final global model, (d,).
        rounds: what each left behind.
        attack_results: of each observer.
    """

    model: Vectors
    rounds: list[RoundResult]
    attack_results: list[Finding]

    def participation(self, clients: int) -> Floats:
        """The participation matrix, (rounds, clients)."""
        matrix = np.zeros((len(self.rounds), clients))
        for row, done in zip(matrix, self.rounds, strict=True):
            row[done.clients] = done.weights
        return matrix

    def last(self, name: str) -> float | None:
        """The last value of a column of the rounds."""
        values = [value for done in self.rounds if (value := done.row.get(name)) is not None]
        return values[-1] if values else None


def run_in_memory(parts: Components[Rule]) -> RunInMemory:
    """Runs what :func:`simfl.runs.run.build` built."""
    rounds: list[RoundResult] = []
    server = make_server(parts, World(0.0), rounds.append)
    server.world.run(server.world.spawn(server.run()))
    state = server.state() if parts.observers else {}
    seen = [under(f"observed/{i}", state) for i in range(len(parts.observers))]
    return RunInMemory(server.model, rounds, finalise_attacks(parts.observers, seen, parts.learner, parts.streams))
