"""How a global model does on samples that clients train on. Imported only where torch is."""

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.clients.local_values import Vector
from simfl.core.rng import Streams
from simfl.learning.partitions.base import Split
from simfl.learning.predictor import Predictor
from simfl.learning.scores import correct


class TrainingLosses:
    """Measures global models on the clients' training samples.

    Args:
        predictor: runs the model.
        x, y: all training samples, float32 (n, *shape), and their classes, int64 (n,).
        split: which of them each client holds.
        streams: for mini-batches.
    """

    def __init__(self, predictor: Predictor, x: torch.Tensor, y: torch.Tensor, split: Split, streams: Streams) -> None:
        self.predictor, self.x, self.y, self.split, self.streams = predictor, x, y, split, streams

    def measure(self, model: Vector, version: int, clients: NDArray[np.integer], batch: int = 0) -> NDArray[np.float64]:
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
        right = correct(loss, predicted, self.y[index].cpu().numpy())
        with np.errstate(invalid="ignore", over="ignore"):
            sums = [np.bincount(owner, weights, len(positions)) for weights in (loss, loss**2, right)]
            mean, square, share = np.array(sums) / np.bincount(owner, minlength=len(positions))
            return np.stack([mean, np.sqrt(square), share], axis=1)

    def _draw(self, positions: NDArray[np.int64], batch: int, version: int, client: int) -> NDArray[np.int64]:
        if len(positions) <= batch:
            return positions
        return np.sort(self.streams("asked_batch", version, client).choice(positions, batch, replace=False))
