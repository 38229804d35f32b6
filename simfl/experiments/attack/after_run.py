"""Attacks after a run: an observer is shown the run's record, or shadow federations are trained beside it."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simfl.agents.aggregation.attack_runner import finalise_attacks
from simfl.attacks.base import AttackerKnowledge, Finding, Observer, ServerView, TrueUpdates
from simfl.attacks.membership import lira, margins, membership_finding, rates
from simfl.core.children import SafeSpawn
from simfl.core.errors import ExhaustedError, SimflError
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.types import Aggregate, Arrays, Bools, Floats, Integers, Job, Vectors
from simfl.learning.base import Learner
from simfl.learning.data.base import Dataset
from simfl.learning.objects.module_sources import accepted_marks
from simfl.learning.transforms.base import Unchanged
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import participation_matrix
from simfl.results.tables import VECTORS
from simfl.runs.run import build
from simfl.runs.simulation import run_in_memory
from simfl.scenario import Scenario, plugin_files
from simfl.scenario.plugin_files import Trust

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Recorded:
    """The record of a run.

    Attributes:
        results: of the run.
        scenario: of the run.
    """

    results: ResultsFolder
    scenario: Scenario

    def __post_init__(self) -> None:
        if "aggregates.csv" not in self.results:
            why = "the run recorded no sums; run it again with trace=aggregates"
            raise SimflError(f"{self.results.path}: {why}")

    @cached_property
    def table(self) -> "DataFrame":
        """``aggregates.csv``: what each update counted in each aggregate."""
        import pandas

        return pandas.read_csv(self.results.file("aggregates.csv"))

    @cached_property
    def last(self) -> Vectors:
        """The final model, (d,)."""
        return np.asarray(np.load(self.results.file("model.npy")), dtype=np.float32)

    @cached_property
    def vectors(self) -> Vectors:
        """All that was recorded, (rows, d), not in memory."""
        path = self.results.file(VECTORS)
        return np.memmap(path, dtype="<f4", mode="r").reshape(-1, len(self.last))

    @cached_property
    def shown(self) -> bool:
        """Whether the server was shown single updates."""
        return len(self.vectors) > 2 * len(self.rounds)

    @cached_property
    def rounds(self) -> Integers:
        """The rounds in which something was aggregated, ascending."""
        return np.unique(self.table["round"].to_numpy())

    @cached_property
    def starts(self) -> Integers:
        """The first row of each such round in :attr:`vectors`, and the number of rows."""
        counts = np.searchsorted(self.table["round"], self.rounds, side="right")
        client_counts = np.diff(np.append(0, counts))
        return np.append(0, np.cumsum(2 + client_counts * self.shown))

    def model(self, version: int) -> Vectors:
        """The global model of a version, (d,)."""
        place = int(np.searchsorted(self.rounds, version))
        return self.last if place == len(self.rounds) else np.array(self.vectors[self.starts[place]])

    def seen(self, first: int = 0, stop: int | None = None) -> Iterator[ServerView]:
        """The aggregations of the rounds ``first`` .. ``stop - 1``, as the server saw them."""
        for place, t in enumerate(self.rounds.tolist()):
            if t < first or (stop is not None and t >= stop):
                continue
            rows = self.table.iloc[slice(*np.searchsorted(self.table["round"], [t, t + 1]))]
            ids, clients, versions = (rows[name].tolist() for name in ("job", "client", "version"))
            jobs = tuple(Job(*job, np.nan) for job in zip(ids, clients, versions, strict=True))
            block = np.array(self.vectors[self.starts[place] : self.starts[place + 1]])
            shares = rows["share"].to_numpy()
            total = Aggregate(block[1], np.array(clients, dtype=np.int32), shares, MappingProxyType({}), shares)
            sent = {version: self.model(version) for version in set(versions)}
            after = self.model(t + 1)
            yield ServerView(t, np.nan, total, jobs, sent, block[2:] if self.shown else None, after, block[0], block[1])


ATTACKS = 1 << 30
"""The first selection number of the jobs that only the scorer has trained; no server comes that far."""


@dataclass(frozen=True)
class Replayed:
    """An attack on a window of rounds.

    Attributes:
        first, last: the rounds.
        aggregations: how many of them had a sum.
        middle: the round at whose beginning the model stood from which the scorer had all clients train.
        errors: by name.
        finding: what came of it in the end.
    """

    first: int
    last: int
    aggregations: int
    middle: int
    errors: dict[str, float]
    finding: Finding

    def to_json(self) -> JsonObject:
        """As plain data."""
        window = {"first_round": self.first, "last_round": self.last, "aggregations": self.aggregations}
        numbers = {name: value if np.isfinite(value) else None for name, value in self.finding.numbers.items()}
        return window | {"truth_round": self.middle, "errors": self.errors, "finding": numbers}


def attack(
    folder: Path,
    name: str,
    overrides: tuple[str, ...] = (),
    first: int = 0,
    stop: int | None = None,
    trust_plugins: bool = False,
) -> Replayed:
    """Shows an observer a window of a finished run, and scores its last guess.

    The truth is what all clients train from the model in the middle of the window, by jobs of their own: draws of
    shuffles that the run has not made. Clients that keep something (SCAFFOLD) begin anew.

    Args:
        folder: a finished run, made with ``trace: aggregates``.
        name: of the observer.
        overrides: its fields, ``field=value``.
        first, stop: rounds ``first`` .. ``stop - 1``; None = to the last.
        trust_plugins: execute plugin files that the run's scenario names, whatever they are.

    Raises:
        SimflError: there is no such run, record or window.
        InvalidScenario: there is no such attack, or it does not fit.
    """
    reader = ResultsFolder.open(folder)
    texts = [f"attacks=[{name}]", *(f"attacks.0.{text}" for text in overrides)]
    reader.file(SCENARIO)
    scenario = Scenario.load(reader.path / SCENARIO, texts, trust=Trust(trust_plugins))
    recorded = Recorded(reader, scenario)
    rounds = recorded.rounds[(recorded.rounds >= first) & (recorded.rounds < (np.inf if stop is None else stop))]
    if not len(rounds):
        has = reader.summary["rounds"]
        raise SimflError(f"{reader.path}: nothing was aggregated in these rounds; the run has {has}")
    (observer,), streams = scenario.attacks, Streams(scenario.seed)
    learner = scenario.learning.build(scenario, streams)
    middle = int(rounds[len(rounds) // 2])
    learner.put(middle, recorded.model(middle))
    holders = np.flatnonzero(learner.samples).astype(np.int32)
    jobs = [Job.of(ATTACKS + middle, client, middle, np.nan) for client in holders.tolist()]
    truth = TrueUpdates(holders, learner.train(jobs).deltas)
    errors, state = replay_observer(observer, recorded, truth, streams, first, stop)
    remember_training(learner, reader, scenario)
    (finding,) = finalise_attacks((observer,), (state,), learner, streams)
    return Replayed(int(rounds[0]), int(rounds[-1]), len(rounds), middle, errors, finding)


def remember_training(learner: Learner, results: ResultsFolder, scenario: Scenario) -> None:
    """Tells a learner which clients a run has summed, and with which version, so that it knows what was trained on.

    Raises:
        SimflError: clients have begun with models of other rounds, and what they hold changes with the version.
    """
    from simfl.learning.learner import SupervisedLearner

    if isinstance(learner, SupervisedLearner):
        if scenario.training.asynchronous and learner.choice.partition.changes:
            raise SimflError(f"{results.path}: of a buffered run whose data change nobody knows what was trained on")
        rounds, clients = (int(results.summary[name]) for name in ("rounds", "clients"))
        matrix = participation_matrix(results.file("participation.csv"), rounds, clients).tocoo()
        learner.trained_on = set(zip(matrix.col.tolist(), matrix.row.tolist()))


def replay_observer(
    observer: Observer,
    recorded: Recorded,
    truth: TrueUpdates,
    streams: Streams,
    first: int = 0,
    stop: int | None = None,
) -> tuple[dict[str, float], Arrays]:
    """The errors of an observer's last guess, and its state in the end."""
    clients, dimension = recorded.scenario.clients, len(recorded.last)
    state, guess = observer.start(clients, dimension), None
    for seen in recorded.seen(first, stop):
        observation, state = observer.observe(seen, state, streams)
        guess = guess if observation is None else observation
    if guess is None:
        return {}, state
    memory = observer.update_memory(truth, observer.init_memory(clients, dimension), streams)
    return dict(observer.error(guess, truth._replace(memory=memory))), state


# -- The likelihood-ratio attack: shadow federations, each with another half of the candidates (Carlini et al. 2022)
# All of them, and the attacked one, run the same scenario; only the data differ, and the seed.

LEAST = 16
"""Shadow federations at least."""


@dataclass(frozen=True)
class Fixed:
    """A data set that is there already, in the place of a scenario's."""

    name: str
    data: Dataset

    def load(self, setting: object, streams: Streams) -> Dataset:
        """The data set."""
        return self.data


def likelihood(
    folder: Any, shadows: int = LEAST, candidates: int = 1000, jobs: int = 1, trust_plugins: bool = False
) -> dict[str, Finding]:
    """Membership of a finished run's final model: online, offline (one-sided), and a threshold on the loss beside them.

    Args:
        folder: of the run.
        shadows: federations, even, at least 16.
        candidates: members asked about at most, and as many others.
        jobs: processes; their number changes nothing.
        trust_plugins: execute plugin files that the run's scenario names, whatever they are.

    Raises:
        SimflError: there is no such run; it learned nothing; too few shadows.
    """
    reader = ResultsFolder.open(folder)
    if shadows < LEAST or shadows % 2:
        raise SimflError(f"shadows: {shadows} is not even and at least {LEAST}")
    if "model.npy" not in reader:
        raise SimflError(f"{reader.path}: nothing was learned, so that there is no model to attack")
    reader.file(SCENARIO)
    path = reader.path / SCENARIO
    scenario = Scenario.load(path, trust=Trust(trust_plugins))
    known = plugin_files.executed_digests() | accepted_marks()
    trust = Trust(digests=known)  # the other processes execute the same files, and no others
    model = np.load(reader.file("model.npy"))
    streams, learning = Streams(scenario.seed), scenario.learning
    data: Dataset = learning.transform.apply(learning.data.load(scenario, streams), streams)
    learner = _learning(scenario, data).build(scenario, streams)
    remember_training(learner, reader, scenario)
    knowledge, truth = learner.attack_context()
    rng, n = streams("attack/candidates"), min(candidates, len(truth.trained), len(data.y_test))
    members, others = rng.permutation(truth.trained)[:n], rng.permutation(len(data.y_test))[:n]
    inside = halves(shadows, len(members) + len(others), streams)
    scores = np.stack(list(_map_tasks(_Shared(path, trust, data, members, others), list(enumerate(inside)), jobs)))
    target = _margins(knowledge, model, data, members, others)
    member = np.arange(len(members) + len(others)) < len(members)
    document = {
        "online": lira(target, scores, inside, online=True),
        "offline": lira(target, scores, inside, online=False),
        "loss": target,
    }
    return {name: membership_finding(rates(statistic, member, f"LiRA, {name}")) for name, statistic in document.items()}


def halves(shadows: int, candidates: int, streams: Streams) -> Bools:
    """Who is in which shadow federation, (shadows, candidates): each candidate in exactly half of them."""
    draws = streams("attack/shadows").random((shadows, candidates))
    return draws.argsort(axis=0).argsort(axis=0) < shadows // 2


class _Shared(NamedTuple):
    """What all shadow federations work with: the scenario, its plugin files, its data, the candidates."""

    path: Path
    trust: Trust
    data: Dataset
    members: Integers
    others: Integers


def shadow(shared: _Shared, task: tuple[int, Bools]) -> Floats:
    """The candidates' margins under a federation that trained on those that are inside, (candidates,).

    Args:
        shared: the same for all.
        task: number of the shadow, and who is inside.
    """
    (path, trust, data, members, others), (number, inside) = shared, task
    scenario = Scenario.load(path, trust=trust)
    seed = scenario.seed + 1_000_003 * (number + 1)
    changed = _learning(scenario, _with(data, members, others, inside))
    parts = build(replace(scenario, learning=changed, seed=seed, attacks=(), metrics=(), trace="rounds"))
    model = run_in_memory(parts).model
    context = parts.learner.attack_context()
    assert context is not None, "it has a model"
    return _margins(context[0], model, data, members, others)


def _learning(scenario: Scenario, data: Dataset) -> Any:
    """The scenario's, with data that are there already, as they are."""
    learning = scenario.learning
    return replace(learning, data=Fixed(learning.data.name, data), transform=Unchanged())


def _with(data: Dataset, members: Any, others: Any, inside: Bools) -> Dataset:
    """The training samples that are no candidates, and the candidates that are inside."""
    rest = np.setdiff1d(np.arange(len(data.y_train)), members)
    mine, theirs = members[inside[: len(members)]], others[inside[len(members) :]]
    positions = np.append(rest, mine)
    x = np.concatenate([data.x_train[positions], data.x_test[theirs]])
    y = np.concatenate([data.y_train[positions], data.y_test[theirs]])
    columns = {
        name: np.append(values[positions], np.resize(values, len(theirs))) for name, values in data.columns.items()
    }
    return replace(data, x_train=x, y_train=y, columns=columns)


def _margins(knowledge: AttackerKnowledge, model: Vectors, data: Dataset, members: Any, others: Any) -> Floats:
    from simfl.attacks.matching import logits_of

    x = np.concatenate([data.x_train[members], data.x_test[others]])
    y = np.concatenate([data.y_train[members], data.y_test[others]])
    return margins(logits_of(knowledge, model, x), y)


class _Process:
    """What a process keeps between shadows."""

    shared: _Shared


def _start(shared: _Shared) -> None:
    _Process.shared = shared


def _one(task: tuple[int, Bools]) -> Floats:
    return shadow(_Process.shared, task)


def _map_tasks(shared: _Shared, tasks: list[Any], jobs: int) -> Iterator[Floats]:
    """Results in the order of the tasks, from fresh processes of one computing thread each.

    They are handed the data: what loads them takes longer to import than they take to send.

    Raises:
        ExhaustedError: a process ended before its work did.
    """
    if jobs == 1:
        yield from (shadow(shared, task) for task in tasks)
        return
    with ProcessPoolExecutor(min(jobs, len(tasks)), SafeSpawn(), _start, (shared,)) as pool:
        try:
            yield from pool.map(_one, tasks)
        except BrokenProcessPool as error:
            message = "a process that trains shadows ended before its work did (out of memory?)"
            raise ExhaustedError(message) from error
