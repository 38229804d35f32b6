"""What is damaged: the folders of runs, served runs, sweeps and comparisons, finished or not, one after another."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

from simfl.core.storage.disk import write_atomically
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.experiments.compare.comparison import compare
from simfl.experiments.sweep import worker
from simfl.experiments.sweep.execution import How, execute
from simfl.experiments.sweep.plan import Plan as Sweep
from simfl.experiments.sweep.plan import plan_sweep
from simfl.experiments.sweep.task import note_failure
from simfl.results.client_updates import UpdateStore, npy_bytes
from simfl.results.file_names import FAILURE, SUMMARY
from simfl.runs import finalise
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.kills import files
from tests.support.swept_axes import axes

LEARNING = """
name: damaged
clients: 12
devices: {availability: {name: bernoulli, dropout: 0.2}, failure: {name: bernoulli, probability: 0.05}}
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedavg, rounds: 12, batch_size: 20, learning_rate: 0.2}
learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: logistic}
privacy: {stages: [{name: central_gaussian, max_weight: 1000}]}
attacks: [least_squares, {name: membership, candidates: 50}, {name: inversion, method: analytic}]
trace: events
"""
BUFFERED = """
name: damaged
clients: 12
network: {name: star, latency_s: 0.1}
devices: {computation: {name: per_sample, seconds: 0.01}}
selection: {name: random, k: 1}
training: {name: fedbuff, concurrency: 4, buffer: 2, rounds: 12}
learning: {name: none, parameters: 100, samples: 10}
trace: events
"""
RECORDED = """
name: damaged
clients: 8
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 8, batch_size: 10, learning_rate: 0.2}
learning:
  data: {name: synthetic, samples: 160, test_samples: 60, shape: [4], classes: 3, separation: 1.0}
  model: logistic
  evaluate: {per_class: true, per_client: true}
secagg: secagg
attacks: [least_squares]
metrics: [model_change]
trace: aggregates
"""
MANY = """
name: damaged
clients: 1001
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 3, batch_size: 10, learning_rate: 0.2}
learning:
  data: {name: synthetic, samples: 2002, test_samples: 20, shape: [4], classes: 3, separation: 1.0}
  model: logistic
  evaluate: {per_client: true}
"""
"""More clients than plain tables are written of."""

EDGES = """
name: damaged
clients: 12
topology: {name: tree, edges: 3, edge_rounds: 2}
network: {name: star, latency_s: 0.1}
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 8}
learning: {name: none, parameters: 100, samples: 10}
secagg: secagg
trace: events
"""
SERVED = """
name: damaged
clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 8}
learning: {data: digits, model: logistic, backend: {name: external, clients: [0, 1, 2]}}
"""
SEVERAL_ROUNDS = ["training.rounds=150"]
"""One checkpoint in three rounds."""

PROTECTED = ["secagg=plain,basecagg", "training.weighting=equal"]
SEEDS, OTHER_SEEDS = "seed=0,1,2", "seed=5,6,7"


class Stop(Exception):
    """A run or a sweep is interrupted here."""


@dataclass(frozen=True)
class Subject:
    """Results whose files are damaged one at a time.

    Attributes:
        name: of this kind.
        home: folder of all results of the scenario, copied before each damage.
        folder: of the run, sweep or comparison, below ``home``.
        twins: folders below ``home`` whose files are damaged, each with one of the same kind to swap files with.
        again: the command that made it, with a root of results; all files that there are then.
    """

    name: str
    home: Path
    folder: str
    twins: dict[str, Path]
    again: Callable[[Path], object]


class Pods(RemoteJobs):
    """Remote clients that answer at once, each job with an update of its own."""

    def request(self, requests):
        super().request(requests)
        for each in requests:
            delta = np.random.default_rng(each.job.id).normal(size=len(each.model)) * 0.01
            if each.job.id in self._open:
                self.add_scores(each.job.client, {"loss": 0.5})
                self.update(each.job.client, each.job.id, npy_bytes(delta.astype(np.float32)), float(each.job.id % 7))


def played(scenario: Scenario, out: Path, **how: object) -> Path:
    """Plays a scenario, its remote clients included; the folder."""
    if outside := scenario.learning.external:
        folder = out / scenario.name / scenario.digest
        jobs = Pods(outside, UpdateStore(folder), "token", 10.0, {})
        if not (folder / "joined").exists():
            for client in outside:
                jobs.join("pod", client)
        scenario = scenario.using(remote_clients=jobs)
    return run(scenario, out, **how).path


# -- runs --------------------------------------------------------------------------------------------------


def _subject(name: str, text: str, scratch: Path, ends: Callable, overrides: list[str]) -> Subject:
    scenarios = [Scenario.parse(text, "s", [*overrides, f"seed={seed}"]) for seed in (0, 1)]
    first, second = (scratch / name / str(seed) / "damaged" / s.digest for seed, s in enumerate(scenarios))
    for scenario, folder in zip(scenarios, (first, second)):
        ends(scenario, folder.parent.parent)
    return Subject(name, first.parent, first.name, {first.name: second},
                   lambda out: files(played(scenarios[0], out)))  # fmt: skip


def _stopped(scenario: Scenario, out: Path) -> None:
    def stop(done: int, rounds: int, time_s: float) -> None:
        if done == 5:
            raise Stop

    with suppress(Stop):
        played(scenario, out, progress=stop)


def _unwritten(scenario: Scenario, out: Path) -> None:
    """Dies when the tables have their final names, and there is no summary yet."""

    def write(path: Path, data: bytes) -> None:
        if path.name == SUMMARY:
            raise Stop
        write_atomically(path, data)

    with suppress(Stop), mock.patch.object(finalise, "write_atomically", write):
        played(scenario, out)


def _untidied(scenario: Scenario, out: Path) -> None:
    """Dies when all is written, and what only an unfinished run needs is still there."""
    with suppress(Stop), mock.patch("simfl.runs.simulation.remove_leftovers", side_effect=Stop):
        played(scenario, out)


def finished(scratch: Path) -> Iterator[Subject]:
    """Runs that are finished."""
    texts = {
        "learning": LEARNING,
        "buffered": BUFFERED,
        "recorded": RECORDED,
        "edges": EDGES,
        "served": SERVED,
        "many": MANY,
    }
    for name, text in texts.items():
        yield _subject(name, text, scratch, played, [])


def playing(scratch: Path) -> Iterator[Subject]:
    """Runs that are not finished."""
    yield _subject("learning stopped", LEARNING, scratch, _stopped, [])
    yield _subject("buffered stopped", BUFFERED, scratch, _stopped, SEVERAL_ROUNDS)
    yield _subject("recorded stopped", RECORDED, scratch, _stopped, [])
    yield _subject("edges stopped", EDGES, scratch, _stopped, [])
    yield _subject("served stopped", SERVED, scratch, _stopped, [])
    yield _subject("recorded unwritten", RECORDED, scratch, _unwritten, [])
    yield _subject("recorded untidied", RECORDED, scratch, _untidied, [])


# -- sweeps and comparisons --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Here(How):
    """Members are played in this process.

    Attributes:
        dying: digests of members whose processes die.
        stops: number of the member in which the sweep is interrupted.
    """

    dying: frozenset[str] = frozenset()
    stops: int = -1

    def execute(self, tasks):
        for number, task in enumerate(tasks):
            yield "started", task.digest
            if number == self.stops:
                _stopped(Scenario.parse(task.scenario, "s"), Path(task.out))
                raise Stop
            if task.digest in self.dying:
                note_failure(task.path, f"{task.digest} died 3 times", detail="exit status -9\n")
            else:
                worker.execute(task)
            yield "ended", task.digest


def _sweep(plan: Sweep, out: Path, how: Here) -> None:
    execute(plan, out, out / plan.name / f"sweep-{plan.digest}", how)


def _compare(plan: Sweep, out: Path, how: Here) -> None:
    compare(plan, out, how)


def _all(home: Path) -> dict[str, object]:
    """Every file of a scenario's runs, sweeps and comparisons, and who has failed."""
    return {path.name: files(path) for path in sorted(home.iterdir()) if path.is_dir()}


def swept(scratch: Path) -> Iterator[Subject]:
    """Sweeps and comparisons, finished and interrupted; of two members the processes die."""
    scratch.mkdir(parents=True, exist_ok=True)
    (file := scratch / "s.yaml").write_text(BUFFERED)
    for name, act, grid, stops in (
        ("sweep", _sweep, ["training.buffer=2,3"], -1),
        ("sweep stopped", _sweep, ["training.buffer=2,3"], 4),
        ("comparison", _compare, [*PROTECTED, "network.jitter_s=0,0.01"], -1),  # in two worlds
        ("comparison stopped", _compare, PROTECTED, 4),
    ):
        plan, other = (plan_sweep(str(file), axes([*grid, seeds]), 1, ()) for seeds in (SEEDS, OTHER_SEEDS))
        how = Here(dying=frozenset(member.digest for member in plan.members[1:3]))
        home, twin = scratch / name / "damaged", scratch / f"{name} twin" / "damaged"
        for where, its in ((home, plan), (twin, other)):
            with suppress(Stop):
                act(its, where.parent, Here(dying=how.dying, stops=stops))
        (folder,) = (path.name for path in home.iterdir() if "-" in path.name)
        (twins,) = (path for path in twin.iterdir() if "-" in path.name)
        members = [member.digest for member in plan.members if (home / member.digest).exists()]
        pairs = {digest: home / _alike(home, members, digest) for digest in members} | {folder: twins}

        def again(out: Path, act=act, plan=plan, how=how) -> object:
            act(plan, out, how)
            return _all(out / plan.name)

        yield Subject(name, home, folder, pairs, again)


def _alike(home: Path, members: list[str], digest: str) -> str:
    """Another member in the same state, or the same one."""

    def state(of: str) -> list[bool]:
        return [(home / of / name).exists() for name in (SUMMARY, FAILURE)]

    return next((other for other in members if other != digest and state(other) == state(digest)), digest)
