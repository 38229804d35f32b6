"""Models measured on samples that belong to clients. Imported only where torch is."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.measure import Measure
from simfl.learning.partitions.base import Split
from simfl.learning.scores import correct

__all__ = ["OwnSamples"]

Vector = NDArray[np.float32]


class OwnSamples:
    """Accuracies on every client's own samples.

    Args:
        measure: runs models.
        x: samples, torch.float32 (n, *shape).
        y: their classes, torch.int64 (n,).
        split: whose they are.
    """

    def __init__(self, measure: Measure, x: torch.Tensor, y: torch.Tensor, split: Split) -> None:
        self.measure, self.x, self.y, self.split = measure, x, y, split
        self.labels = y.cpu().numpy()
        self.used, place = np.unique(split.indices, return_inverse=True)
        self.place = Split(split.offsets, place.astype(np.int64))

    @property
    def holders(self) -> NDArray[np.bool_]:
        """Who has any, bool (clients,)."""
        return self.split.sizes > 0

    def accuracy(self, model: Vector, client: int) -> float:
        """Share of a client's samples that a model (d,) classifies rightly; NaN where a loss is not finite."""
        return float(self._right(model, self.split[client]).mean())

    def accuracies(self, model: Vector, personal: Callable[[int], Vector | None]) -> NDArray[np.float64]:
        """The same of every client's model, (clients,), NaN where it has no samples.

        Args:
            model: the global one, (d,), measured once for all who use it.
            personal: a client's own model; None = the global one.
        """
        found = np.full(len(self.split), np.nan)
        shared = None
        for client in np.flatnonzero(self.holders).tolist():
            own = personal(client)
            if own is not None:
                found[client] = self.accuracy(own, client)
                continue
            if shared is None:
                shared = self._right(model, self.used)
            found[client] = shared[self.place[client]].mean()
        return found

    def _right(self, model: Vector, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        index = torch.from_numpy(chosen).to(self.x.device)
        loss, predicted = self.measure(model, self.x[index], self.y[index])
        return correct(loss, predicted, self.labels[chosen])
