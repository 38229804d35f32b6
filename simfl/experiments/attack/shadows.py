"""The likelihood-ratio attack: shadow federations, each with another half of the candidates (Carlini et al. 2022).

All of them, and the attacked one, run the same scenario; only the data differ, and the seed.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simfl.attacks.base import Finding
from simfl.attacks.context import AttackerKnowledge
from simfl.attacks.membership import lira, margins, membership_finding, rates
from simfl.core.children import SafeSpawn
from simfl.core.errors import ExhaustedError, SimflError
from simfl.core.rng import Streams
from simfl.core.types import Bools, Floats, Integers, Vectors
from simfl.experiments.attack.replay import remember_training
from simfl.learning.data.base import Dataset
from simfl.learning.objects.module_sources import accepted_marks
from simfl.learning.transforms.base import Unchanged
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.runs.run import build
from simfl.runs.simulation import run_in_memory
from simfl.scenario import Scenario, plugin_files
from simfl.scenario.plugin_files import Trust

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
    members, others = _draw_samples(truth.trained, data, candidates, streams)
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


def _draw_samples(trained: Integers, data: Dataset, most: int, streams: Streams) -> tuple[Integers, Integers]:
    """Positions of members among the samples trained on and of others among the test samples, as many of both."""
    rng, n = streams("attack/candidates"), min(most, len(trained), len(data.y_test))
    return rng.permutation(trained)[:n], rng.permutation(len(data.y_test))[:n]


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
    from simfl.attacks.gradients import logits_of

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
