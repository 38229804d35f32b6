"""The common test samples, and what models make of them. Imported only where torch is."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.data.base import Dataset
from simfl.learning.measure import Measure
from simfl.learning.scores import class_scores, correct, overall_scores
from simfl.types import Predictions

__all__ = ["Tested"]

Vector = NDArray[np.float32]


class Tested:
    """The test part of a data set, or some samples of it.

    Args:
        measure: runs models.
        data: whose test part it is.
        chosen: positions of the samples that are used; None = all.
        device: where they are kept.

    Attributes:
        labels: their classes, (n,).
    """

    def __init__(self, measure: Measure, data: Dataset, chosen: NDArray[np.int64] | None, device: torch.device) -> None:
        used = slice(None) if chosen is None else np.sort(chosen)
        self.measure, self.classes, self.labels = measure, data.classes, data.y_test[used]
        self._x, self._y = (torch.from_numpy(part).to(device) for part in (data.x_test[used], self.labels))

    def predictions(self, model: Vector) -> Predictions:
        """Of every sample."""
        loss, predicted = self.measure(model, self._x, self._y)
        return Predictions(self.labels, predicted, loss, self.classes)

    def scores(self, model: Vector, per_class: bool) -> dict[str, float]:
        """Of a global model, see :mod:`simfl.learning.scores`."""
        loss, predicted = self.measure(model, self._x, self._y)
        scores = overall_scores(loss, predicted, self.labels, self.classes)
        return scores | class_scores(loss, predicted, self.labels, self.classes) if per_class else scores

    def client_scores(self, clients: Iterable[int], personal: Callable[[int], Vector | None]) -> dict[str, float]:
        """``test_accuracy_client_i`` of every client that uses a model of its own."""
        models = ((client, personal(client)) for client in clients)
        return {f"test_accuracy_client_{client}": self._accuracy(own) for client, own in models if own is not None}

    def no_skill(self, initial: Vector) -> float:
        """The better accuracy of two that cost nothing: of the initial model, and of the most frequent class."""
        _, predicted = self.measure(initial, self._x, self._y)
        return float(max(np.mean(predicted == self.labels), np.bincount(self.labels).max() / len(self.labels)))

    def _accuracy(self, model: Vector) -> float:
        loss, predicted = self.measure(model, self._x, self._y)
        return float(correct(loss, predicted, self.labels).mean())
