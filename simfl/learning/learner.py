"""The supervised learner. Imported only when one is built, because it imports torch."""

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import hypot, inf
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.attacks.base import AttackerKnowledge, GroundTruth
from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import RoundOutcome
from simfl.core.errors import PluginError, ScenarioError
from simfl.core.payload import SUMMABLE
from simfl.core.registration.protocol import is_foreign
from simfl.core.rng import Streams
from simfl.core.scenario_view import RuntimeOptions, ScenarioView
from simfl.core.types import Arrays, Job, Labels, Updates
from simfl.learning.backends.base import Sgd, TrainingTask
from simfl.learning.backends.trial import refusal
from simfl.learning.base import Learner, Sizes
from simfl.learning.client_accuracies import ClientAccuracies, ClientSamples, Predictor
from simfl.learning.data.base import Dataset
from simfl.learning.evaluator import EvaluationSet, SupervisedEvaluator, TrainingLosses
from simfl.learning.holdout import Holdings, poison
from simfl.learning.local_runner import (
    AlgorithmState,
    ClientPretraining,
    LocalRunner,
    TrainedJob,
    add_arrays,
    upload_masks,
)
from simfl.learning.models.build import (
    build,
    check_bf16,
    initial,
    refuse_shared_statistics,
    refuse_single_samples,
    shared_statistics,
)
from simfl.learning.models.criterion import CROSS_ENTROPY, loss_method
from simfl.learning.models.flat import attach, layout, parameters, size
from simfl.learning.partitions.base import Split
from simfl.learning.torch_setup import configure_torch, device, device_name
from simfl.learning.transforms.base import Unchanged, origins_of
from simfl.learning.work import Augment, largest_move

LATEST = 1000
"""Up to this version of the model the samples of clients are looked at."""

PIECE = 1 << 10
"""Samples whose norms are computed at a time."""


class SupervisedLearner(Learner):
    """Learns for one scenario, with PyTorch."""

    def __init__(self, choice: Any, scenario: ScenarioView, streams: Streams) -> None:
        configure_torch()
        self.choice, self.streams = choice, streams
        self.local = cast(LocalTraining, scenario.training)  # a rule with which something is learned says how
        self.device, data = device(choice.device), choice.data.load(scenario, streams)
        self._require_classes(data, scenario)
        _require_targets(choice.loss, data)
        self.data = choice.transform.apply(data, streams)
        self.origins = origins_of(choice.transform, data, self.data)
        split = choice.partition.split(self.data, scenario.clients, streams("partition"))
        if type(split).counts is not Split.counts and not choice.partition.changes:
            raise PluginError(choice.partition, "gives clients other numbers of samples over time; set changes = True")
        nothing = Split.of([np.empty(0, dtype=np.int64)] * len(split))
        self.holdings = Holdings(split, nothing, nothing, False)
        if choice.holdout is not None:
            self.holdings = choice.holdout.split(self.data, split, streams("holdout"))
        self.clean = len(self.data.x_train)
        self.data, self.holdings, self.origins = poison(scenario, self.data, self.holdings, self.origins, streams)
        self.partition = self.holdings.training
        self.samples, self.steepness = self.partition.sizes, choice.steepness
        exact = choice.backend.plain_sgd and not choice.bf16
        self.smoothness = float(choice.model.smoothness) if exact else inf
        self.augment = choice.augment and choice.augment.suiting(self.data.shape, choice.data.name)
        self._build_model(scenario)
        self._build_algorithm(scenario)
        self.trained_early: dict[int, TrainedJob] = {}
        self.watched, self.trained_on = bool(scenario.attacks), set[tuple[int, int]]()  # clients, versions
        self.models: dict[int, NDArray[np.float32]] = {}
        self.validation = self._client_samples(self.holdings.validation)
        self.own_test = self._client_samples(self.holdings.test)
        record = ClientAccuracies(self.own_test, choice.evaluate.per_client, choice.evaluate.best)
        data = (self.augment, self.partition, self.states)
        self.runner = LocalRunner(self.engine, self.local, streams, *data, self.validation.accuracy, record.wanted)
        losses = TrainingLosses(self.predictor, self.task.x, self.task.y, self.partition, streams)
        sets = self._evaluation_sets(streams)
        self.measuring = SupervisedEvaluator(
            choice.evaluate, *sets, record, self.runner, self.samples, self.models, self.start, losses
        )
        self.measuring.test_set.metrics(self.start)  # what cannot be computed shows before the run

    def _evaluation_sets(self, streams: Streams) -> tuple[EvaluationSet, EvaluationSet | None]:
        """The samples that models are tested on, and those on which they are validated."""
        tests, validation = self.choice.evaluate.parts(len(self.data.y_test), streams)
        test_set = EvaluationSet(self.predictor, self.data, tests, self.device)
        return test_set, None if validation is None else EvaluationSet(
            self.predictor, self.data, validation, self.device
        )

    def _require_classes(self, data: Dataset, scenario: ScenarioView) -> None:
        """
        Raises:
            ScenarioError: something is made for classes, and the targets are none.
        """
        if data.classified:
            return
        choice, wanted = self.choice, self.choice.evaluate
        needed = {
            "transform": not isinstance(choice.transform, Unchanged), "augment": choice.augment is not None,
            "holdout": choice.holdout is not None, "evaluate.per_class": wanted.per_class,
            "evaluate.per_client": wanted.per_client, "selection": "accuracy" in scenario.selection.reads,
            "training.stop.target_accuracy": scenario.training.needs_accuracy,
        }  # fmt: skip
        for key in (key for key, needs in needed.items() if needs):
            data.require_classes(key, "is made for samples with classes")

    def _build_model(self, scenario: ScenarioView) -> None:
        choice, data, own_steps = self.choice, self.data, self.choice.backend.own_steps
        module = build(choice.model, data.shape, data.outputs, data.tokens, data.classified, choice.loss, own_steps)
        if scenario.attacks:
            _refuse_loss(module)
        if choice.bf16 and self.device.type == "cpu":
            check_bf16(module, self.data.shape, self.data.tokens)
        self.dimension = size(layout(module))
        self.model_bytes = 4 * self.dimension
        self.parameters = parameters(module)
        self.tensors = tuple(parameter.elements for parameter in self.parameters)
        values = choice.model.initial_values()
        self.start = initial(module, self.streams("model")) if values is None else values
        self.predictor = Predictor(module, self.device, self.data.classified)
        attach(module, torch.from_numpy(self.start.copy()))  # what is tried begins near it
        self.task = self._task(module.to(self.device), scenario.means)
        if reason := self.predictor.refusal(self.start, self.task) if own_steps else refusal(self.task):
            raise ScenarioError("model", f"{choice.model.name} {reason}")
        if reason := choice.backend.refuses(self.task):
            raise ScenarioError("backend", f"{choice.backend.name} cannot train this model: {reason}")
        if not own_steps:
            refuse_single_samples(self._sizes(scenario.training.most_rounds), self.local.batch_size, self._alone)
        self.backend = choice.backend.choose(self.task)
        self.engine = self.backend.build(self.task)

    def _build_algorithm(self, scenario: ScenarioView) -> None:
        named = self.local.algorithm
        self.algorithm = named.for_model(self.parameters, self.start)
        if self.algorithm.pretraining() is not None and not named.needs_server:
            raise PluginError(named, "trains clients alone first; set `needs_server`")
        sized = self.algorithm.sized_by_training or (is_foreign(named) and not self.algorithm.dense)
        if sized and named.sends and SUMMABLE.issuperset(part.kind for part in named.sends):
            why = "is `sized_by_training`" if self.algorithm.sized_by_training else "is not `dense`"
            why = f"{why}, so that a message's size or time tells of its client's samples"
            raise PluginError(named, f"{why}; declare in `sends` what it tells")
        self.statistics = shared_statistics(self.parameters, self.algorithm.private)
        averaged = self.choice.norm_statistics == "averaged"
        if self.statistics is not None:
            refuse_shared_statistics(self.parameters, self.statistics[0], averaged, scenario)
        self.states = AlgorithmState(
            self.algorithm, scenario.clients, self.algorithm.common(self.parameters, self.dimension)
        )
        self.sizes_vary = not self.algorithm.dense
        self.uses_outcomes = self.algorithm.uses_outcomes
        self.private = self.algorithm.private
        if self.choice.partition.changes and not self.choice.partition.accumulates and self.algorithm.repeats:
            self.steepness = inf  # what is sent may be of samples that the client had before

    def _sizes(self, rounds: int | None) -> NDArray[np.int64]:
        """How many samples clients hold, (versions, clients), as far as is known when the run begins."""
        versions = min(rounds or LATEST, LATEST) if self.choice.partition.counts_change else 0
        clients = np.arange(len(self.samples))
        growing = [self.partition.counts(clients, np.full(len(clients), v, dtype=np.int64)) for v in range(versions)]
        return np.stack([self.samples, *growing])

    def _alone(self) -> str | None:
        """Why the model cannot make a step of one sample, or None."""
        if any(parameter.statistic for parameter in self.parameters):
            return "has no variance to normalise by"
        return refusal(self.task, (1,))

    def _client_samples(self, split: Split) -> ClientSamples:
        """Clients' own samples: these or, where no client has any, those that they train on."""
        if not len(split.indices):
            return ClientSamples(self.predictor, self.task.x, self.task.y, self.partition)
        x, y = self.task.x, self.task.y
        if split is self.holdings.test and self.holdings.foreign:
            x, y = (torch.from_numpy(part).to(self.device) for part in (self.data.x_test, self.data.y_test))
        return ClientSamples(self.predictor, x, y, split)

    def _task(self, module: torch.nn.Module, means: RuntimeOptions) -> TrainingTask:
        largest = max(1, int(self.samples.max(initial=0)))
        local, augment = self.local, self.augment or Augment()
        return TrainingTask(
            module,
            torch.from_numpy(self.data.x_train).to(self.device),
            torch.from_numpy(self.data.y_train).to(self.device),
            min(local.batch_size or largest, largest),
            Sgd(local.momentum, local.weight_decay, local.clip_norm),
            augment.crop,
            augment.flip,
            self.choice.bf16,
            means,
        )

    @property
    def evaluator(self) -> SupervisedEvaluator:
        return self.measuring

    @property
    def labels(self) -> Labels:
        counts = self.partition.label_counts(self.data.labels, self.data.classes)
        return Labels(self.data.label_names, counts)

    @property
    def label_names(self) -> Sequence[str]:
        return self.data.label_names

    @property
    def computed_by(self) -> dict[str, str]:
        return {"backend": self.backend.name, "device": device_name(self.device)}

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.data.notes)

    def largest_norm(self) -> float:
        rows = self.data.x_train.reshape(len(self.data.x_train), -1)
        pieces = (rows[first : first + PIECE].astype(np.float64) for first in range(0, len(rows), PIECE))
        return max((float(np.sqrt((piece**2).sum(axis=1).max())) for piece in pieces), default=0.0)

    def sample_moves(self, jobs: Sequence[Job]) -> NDArray[np.float64]:
        if not self.local.descends or not self.smoothness < inf:
            return np.full(len(jobs), inf)
        longest = self._longest
        slope, smoothness = (self.steepness or 0.0) * longest, self.smoothness * longest**2
        clients, versions = np.array([(job.client, job.version) for job in jobs], dtype=np.int64).reshape(-1, 2).T
        counts = self.partition.counts(clients, versions).tolist()
        jobs_data = zip(counts, versions.tolist(), strict=True)
        return np.array([largest_move(self.local, n, version, slope, smoothness) for n, version in jobs_data])

    @cached_property
    def _longest(self) -> float:
        """The length of the longest training sample with a 1 for the intercept."""
        return hypot(self.largest_norm(), 1)

    def initial(self) -> NDArray[np.float32]:
        return self.start.copy()

    def put(self, version: int, model: NDArray[np.float32]) -> None:
        self.models[version] = np.ascontiguousarray(model, dtype=np.float32)

    def get(self, version: int) -> NDArray[np.float32]:
        return self.models[version]

    def drop(self, version: int) -> None:
        self.models.pop(version, None)

    def root_update(self, version: int, samples: int) -> NDArray[np.float32]:
        return self.runner.root_update(version, self.models[version], self.clean, samples)

    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        algorithm, dense, n = self.algorithm, self.model_bytes, len(jobs)
        if not self.sizes_vary:
            return Sizes(algorithm.bytes_down(dense, {}), algorithm.bytes_up(dense, {}, None), algorithm.passes)
        if algorithm.sized_by_training:
            late = [job for job in jobs if job.id not in self.trained_early]
            self.trained_early |= zip((job.id for job in late), self.runner.train(late, self.models), strict=True)
        states = [self.states.client(job.client) for job in jobs]
        trained = [self.trained_early.get(job.id) for job in jobs]
        down = (algorithm.bytes_down(dense, state) for state in states)
        up = (
            algorithm.bytes_up(dense, state, done and done.result) for state, done in zip(states, trained, strict=True)
        )
        passes = (algorithm.passes if done is None else done.passes for done in trained)
        return Sizes(np.fromiter(down, np.int64, n), np.fromiter(up, np.int64, n), np.fromiter(passes, np.float64, n))

    def train(self, jobs: Sequence[Job]) -> Updates:
        late = [job for job in jobs if job.id not in self.trained_early]
        known = self.trained_early | dict(
            zip((job.id for job in late), self.runner.train(late, self.models), strict=True)
        )
        self.discard(jobs)
        results = [known[job.id].result for job in jobs]
        row: Counter[str] = Counter()
        for job, result in zip(jobs, results, strict=True):
            self.states.keep(job.client, result.state)
            row.update(result.row)
        pairs = np.array([(job.client, job.version) for job in jobs], dtype=np.int64)
        if self.watched:
            self.trained_on.update(zip(*pairs.T.tolist()))
        clients, versions = pairs.T
        examples = self.partition.counts(clients, versions)
        for job in jobs:
            if (model := known[job.id].model) is not None:
                self.measuring.record.add_trained(job.client, model)
        loss = np.array([known[job.id].loss for job in jobs])
        deltas = np.stack([result.upload.update for result in results])
        masks = upload_masks(results, deltas.shape) if self.algorithm.partial else None
        arrays: Arrays = {}
        for result in results:
            add_arrays(arrays, result.upload.arrays)
        self.states.add_uploads(arrays)
        return Updates(deltas, examples, loss, masks, dict(row), arrays)

    def counts(self, clients: NDArray[np.integer], version: int) -> NDArray[np.int64]:
        return self.partition.counts(clients, np.full(len(clients), version, dtype=np.int64))

    def positions(self, jobs: Sequence[Job]) -> tuple[NDArray[np.int64], ...]:
        return tuple(self.origins[self.partition.samples_at(job.client, job.version)] for job in jobs)

    def report_outcomes(self, jobs: Sequence[Job], outcomes: Sequence[RoundOutcome]) -> NDArray[np.bool_]:
        leaving = np.zeros(len(jobs), dtype=bool)
        for i, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True)):
            state, leaving[i] = self.algorithm.after_round(outcome, self.states.client(job.client))
            self.states.keep(job.client, state)
        return leaving

    def discard(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.trained_early.pop(job.id, None)

    def pretrain(self) -> ClientPretraining | None:
        if (alone := self.algorithm.pretraining()) is None:
            return None
        rounds, algorithm = alone
        clients = np.flatnonzero(self.samples).tolist()
        return ClientPretraining(rounds, algorithm, self.start, clients, self.validation, self.runner)

    def attack_context(self) -> tuple[AttackerKnowledge, GroundTruth]:
        module, data = copy.deepcopy(self.predictor.module).cpu(), self.data
        if self.choice.backend.own_steps:
            raise ScenarioError("attacks", "know the steps of SGD, and clients train by a function of their own")
        _refuse_loss(module)
        axes = (0, *range(2, data.x_train.ndim)) if len(data.shape) == 3 else None
        low, high = (bound(data.x_train, axis=axes, keepdims=axes is not None) for bound in (np.min, np.max))
        box = (np.asarray(low[0] if axes else low), np.asarray(high[0] if axes else high))
        knowledge = AttackerKnowledge(module, self.parameters, data.shape, data.classes, *box, self.local)
        who = {client for client, _ in self.trained_on} or set(np.flatnonzero(self.samples).tolist())  # if nobody says
        every = _union(map(self._samples_of, sorted(who)))
        truth = GroundTruth(data.x_train, data.y_train, self._samples_of, self._latest, every, data.x_test, data.y_test)
        return knowledge, truth

    def _samples_of(self, client: int) -> NDArray[np.int64]:
        """The positions of the samples that a client trains on; those of all its jobs, where they change."""
        if not self.choice.partition.changes:
            return self.partition[client]
        versions = (version for trained, version in self.trained_on if trained == client)
        return _union(self.partition.samples_at(client, version) for version in versions)

    def _latest(self, client: int) -> NDArray[np.int64]:
        """Those of its latest job."""
        versions = (version for trained, version in self.trained_on if trained == client)
        return self.partition.samples_at(client, max(versions, default=0))

    def state(self) -> Arrays:
        pairs = np.array(sorted(self.trained_on), dtype=np.int64).reshape(-1, 2)
        return self.states.state() | self.measuring.record.state() | {"trained_on": pairs}

    def restore(self, state: Arrays) -> None:
        self.trained_on = set(zip(*state["trained_on"].T.tolist()))
        self.states.restore(state)
        self.measuring.record.restore(state)


def _refuse_loss(module: torch.nn.Module) -> None:
    """
    Raises:
        ScenarioError: attackers, who know cross-entropy only, would be weaker than they have to be.
    """
    if loss_method(module) is not None:
        raise ScenarioError("attacks", "take models to be trained by cross-entropy, and this one has another loss")


def _require_targets(loss: str | None, data: Dataset) -> None:
    """
    Raises:
        ScenarioError: a loss that is named does not take the targets.
    """
    numbers, why = data.y_train.dtype.kind == "f", ""
    if loss == CROSS_ENTROPY and numbers:
        why = "classes, and the targets are numbers; mse takes them"
    elif loss not in (None, CROSS_ENTROPY) and not numbers:
        why = "numbers, and the targets are classes; cross_entropy takes them (csv reads numbers with regression: true)"
    elif loss == "bce" and not all(0 <= y.min() and y.max() <= 1 for y in (data.y_train, data.y_test)):
        why = "numbers from 0 to 1, and some targets are others; mse takes them"
    if why:
        raise ScenarioError("loss", f"is {loss}, which takes {why}")


def _union(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Positions that are in any part, ascending."""
    return np.unique(np.concatenate([*parts, np.zeros(0, dtype=np.int64)]))
