"""Measures the global model on common test samples, and clients' models on their own. Imported only where torch is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.clients.local_values import Vector
from simfl.core.rng import Streams
from simfl.core.types import Floats, Integers, Job, Predictions
from simfl.core.validation import checked_vectors, read_only
from simfl.learning.base import Evaluator
from simfl.learning.client_accuracies import ClientAccuracies, Predictor
from simfl.learning.data.base import Dataset
from simfl.learning.local_runner import LocalRunner
from simfl.learning.partitions.base import Split
from simfl.learning.scores import EvaluationSettings, class_scores, correct, overall_scores


class TrainingLosses:
    """Measures global models on the clients' training samples.

    Args:
        predictor: runs the model.
        x, y: all training samples, float32 (n, *shape), and their classes, int64 (n,), or targets (n, ...).
        split: which of them each client holds.
        streams: for mini-batches.
    """

    def __init__(self, predictor: Predictor, x: torch.Tensor, y: torch.Tensor, split: Split, streams: Streams) -> None:
        self.predictor, self.x, self.y, self.split, self.streams = predictor, x, y, split, streams

    def measure(self, model: Vector, version: int, clients: NDArray[np.integer], batch: int = 0) -> Floats:
        """Mean loss, root of the mean squared loss, and accuracy: float64 (n, 3), NaN without samples.

        Args:
            model: (d,).
            version: of it; where data grow it tells which samples are there, and it addresses mini-batches.
            clients: whose samples, (n,).
            batch: samples of each client's mini-batch, drawn without replacement; 0 = all of them.
        """
        positions = [self.split.samples_at(client, version) for client in clients.tolist()]
        if batch:
            positions = [self._draw(each, batch, version, client) for each, client in zip(positions, clients.tolist())]
        owner = np.repeat(np.arange(len(positions)), [len(each) for each in positions])
        chosen = np.concatenate([*positions, np.empty(0, dtype=np.int64)]).astype(np.int64)
        if not chosen.size:
            return np.full((len(positions), 3), np.nan)
        index = torch.from_numpy(chosen).to(self.x.device)
        loss, predicted = self.predictor(model, self.x[index], self.y[index])
        classified = self.predictor.classified
        right = correct(loss, predicted, self.y[index].cpu().numpy()) if classified else np.full(len(chosen), np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = [np.bincount(owner, weights, len(positions)) for weights in (loss, loss**2, right)]
            mean, square, share = np.array(sums) / np.bincount(owner, minlength=len(positions))
            return np.stack([mean, np.sqrt(square), share], axis=1)

    def _draw(self, positions: Integers, batch: int, version: int, client: int) -> Integers:
        if len(positions) <= batch:
            return positions
        return np.sort(self.streams("asked_batch", version, client).choice(positions, batch, replace=False))


TUNED = 64
"""Clients that tune a model at once."""


class EvaluationSet:
    """The samples at some positions of the test part of a data set."""

    def __init__(self, predictor: Predictor, data: Dataset, chosen: Integers, device: torch.device) -> None:
        used = slice(None) if len(chosen) == len(data.y_test) else np.sort(chosen)
        self.predictor, self.classes, self.labels = predictor, data.classes, data.y_test[used]
        self._x, self._y = (torch.from_numpy(part).to(device) for part in (data.x_test[used], self.labels))

    def predictions(self, model: Vector, makes: Callable[..., NDArray[Any]] | None = None) -> Predictions | None:
        """Of every sample, or of what ``makes`` makes of them; None without classes."""
        if not self.predictor.classified:
            return None
        x = self._x if makes is None else torch.from_numpy(makes(self._x.cpu().numpy().copy())).to(self._x)
        loss, predicted = self.predictor(model, x, self._y)
        return Predictions(read_only(self.labels), read_only(predicted), read_only(loss), self.classes)

    def scores(self, model: Vector, per_class: bool) -> dict[str, float]:
        """Of a global model, see :mod:`simfl.learning.scores`; without classes there is a loss only."""
        loss, predicted = self.predictor(model, self._x, self._y)
        if not self.predictor.classified:
            return {"test_loss": float(loss.mean())}
        scores = overall_scores(loss, predicted, self.labels, self.classes)
        return scores | class_scores(loss, predicted, self.labels, self.classes) if per_class else scores

    def metrics(self, model: Vector) -> dict[str, float]:
        """Of a global model, see :meth:`Predictor.metrics`."""
        return self.predictor.metrics(model, self._x, self._y)

    def validate(self, model: Vector) -> dict[str, float]:
        """``validation_loss`` and, of classes, ``validation_accuracy`` of a global model."""
        scores = self.scores(model, False)
        return {
            f"validation_{kind}": scores[f"test_{kind}"] for kind in ("loss", "accuracy") if f"test_{kind}" in scores
        }

    def client_scores(self, clients: Iterable[int], personal: Callable[[int], Vector | None]) -> dict[str, float]:
        """``test_accuracy_client_i`` of every client that uses a model of its own."""
        scores = {}
        for client in clients:
            if (model := personal(client)) is not None:
                loss, predicted = self.predictor(model, self._x, self._y)
                scores[f"test_accuracy_client_{client}"] = float(correct(loss, predicted, self.labels).mean())
        return scores

    def no_skill(self, initial: Vector) -> float | None:
        """The better accuracy of two that cost nothing: of the initial model, and of the most frequent class."""
        if not self.predictor.classified:
            return None
        _, predicted = self.predictor(initial, self._x, self._y)
        return float(max(np.mean(predicted == self.labels), np.bincount(self.labels).max() / len(self.labels)))


class SupervisedEvaluator(Evaluator):
    """Measures the models of one scenario.

    Args:
        record: how good the clients' models are, where that was asked for.
        runner: of clients that train just to be measured; has their states.
        models: the global models by version, (d,) each, kept up to date by the trainer.
        losses: measures models on the clients' training samples.
    """

    def __init__(
        self,
        wanted: EvaluationSettings,
        test_set: EvaluationSet,
        validation_set: EvaluationSet | None,
        record: ClientAccuracies,
        runner: LocalRunner,
        samples: Integers,
        models: Mapping[int, Vector],
        initial: Vector,
        losses: TrainingLosses,
    ) -> None:
        self.losses = losses
        self.wanted, self.test_set, self.record, self.runner = wanted, test_set, record, runner
        self.samples, self.models, self.start = samples, models, initial
        self.validation_set = validation_set

    def evaluate(self, version: int) -> dict[str, float]:
        model, states = self.models[version], self.runner.states
        scores = self.test_set.scores(model, self.wanted.per_class) | self.test_set.metrics(model)
        if self.validation_set is not None:
            scores |= self.validation_set.validate(model)
        if not self.wanted.per_client:
            return scores

        def personal(client: int) -> Vector | None:
            client_model = states.algorithm.personal(model, states.client(client))
            if client_model is not None:
                checked_vectors(client_model, model.shape, states.algorithm, "personal gives")
            return client_model

        self._tune(version)
        scores |= self.record.measure(model, personal)
        return scores | self.test_set.client_scores(np.flatnonzero(self.samples).tolist(), personal)

    def _tune(self, version: int) -> None:
        """What clients train just to be measured."""
        clients = np.flatnonzero(self.record.samples.holders & (self.samples > 0)).tolist()
        for first in range(0, len(clients), TUNED):
            jobs = [Job.of(version, client, version, 0.0) for client in clients[first : first + TUNED]]
            for client, tuned in self.runner.tune(jobs, self.models[version]).items():
                self.record.add_trained(client, tuned)

    def client_accuracies(self) -> dict[str, Floats] | None:
        return self.record.by_client() if self.record.wanted else None

    def training_losses(self, version: int, clients: NDArray[np.integer], batch: int = 0) -> Floats:
        return self.losses.measure(self.models[version], version, clients, batch)

    def predictions(self, model: Vector, makes: Callable[..., NDArray[Any]] | None = None) -> Predictions | None:
        return self.test_set.predictions(model, makes)

    def no_skill_accuracy(self) -> float | None:
        return self.test_set.no_skill(self.start)
