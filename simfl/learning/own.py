"""Models measured on samples that belong to clients. Imported only where torch is."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.measure import Measure
from simfl.learning.partitions.base import Split
from simfl.learning.scores import client_scores, correct
from simfl.types import Arrays

__all__ = ["OwnSamples", "Record"]

Vector = NDArray[np.float32]

AT_ONCE = 16
"""Models that are measured at once."""

WAITING_BYTES = 1 << 25
"""Models that wait to be measured take no more room than this, here and in a checkpoint."""


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

    @cached_property
    def _used(self) -> tuple[NDArray[np.int64], Split]:
        """The samples that anybody has, once each, and where each client's are among them."""
        used, place = np.unique(self.split.indices, return_inverse=True)
        return used, Split(self.split.offsets, place.astype(np.int64))

    @property
    def holders(self) -> NDArray[np.bool_]:
        """Who has any, bool (clients,)."""
        return self.split.sizes > 0

    def accuracy(self, model: Vector, client: int) -> float:
        """Share of a client's samples that a model (d,) classifies rightly; NaN without any, or where it diverged."""
        if not self.split.sizes[client]:
            return float("nan")
        return float(self._right(model, self.split[client]).mean())

    def accuracies(self, model: Vector, personal: Callable[[int], Vector | None]) -> NDArray[np.float64]:
        """The same of every client's model, (clients,), NaN where it has no samples.

        Args:
            model: the global one, (d,), measured once for all who use it.
            personal: a client's own model; None = the global one.
        """
        found = np.full(len(self.split), np.nan)
        holders = np.flatnonzero(self.holders)
        at_once = AT_ONCE if self.measure.many else 1
        shared: list[int] = []
        waiting: dict[int, Vector] = {}
        for client in holders.tolist():
            own = personal(client)
            if own is None:
                shared.append(client)
                continue
            waiting[client] = own
            if len(waiting) == at_once:
                self._fill(found, waiting)
        if waiting:
            self._fill(found, waiting)
        if shared:
            used, place = self._used
            right = self._right(model, used)
            found[shared] = [right[place[client]].mean() for client in shared]
        return found

    def _fill(self, found: NDArray[np.float64], waiting: dict[int, Vector]) -> None:
        """Measures the models of these clients, many at once or one by one."""
        if self.measure.many:
            found[list(waiting)] = self._many(waiting)
        else:
            for client, own in waiting.items():
                found[client] = self.accuracy(own, client)
        waiting.clear()

    def _many(self, models: dict[int, Vector]) -> NDArray[np.float64]:
        """Always as many models of as many samples, so that rounding does not depend on the company."""
        most = int(self.split.sizes.max())
        index = np.zeros((AT_ONCE, most), dtype=np.int64)
        held = np.zeros((AT_ONCE, most), dtype=bool)
        stacked = np.zeros((AT_ONCE, len(next(iter(models.values())))), dtype=np.float32)
        for row, (client, own) in enumerate(models.items()):
            chosen = self.split[client]
            index[row, : len(chosen)], held[row, : len(chosen)], stacked[row] = chosen, True, own
        at = torch.from_numpy(index).to(self.x.device)
        loss, predicted = self.measure.each(stacked, self.x[at], self.y[at])
        right = np.where(held, correct(loss, predicted, self.labels[index]), 0)
        return (right.sum(axis=1) / np.maximum(held.sum(axis=1), 1))[: len(models)]

    def _right(self, model: Vector, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        index = torch.from_numpy(chosen).to(self.x.device)
        loss, predicted = self.measure(model, self.x[index], self.y[index])
        return correct(loss, predicted, self.labels[chosen])


class Record:
    """How good the models of clients are: those that they use, and those that their last training left.

    What training left is measured when somebody asks, so that models that are soon replaced are not measured at all.

    Args:
        samples: what they are measured on.
        wanted: whether anybody asked for it; else nothing is kept or measured.
    """

    def __init__(self, samples: OwnSamples, wanted: bool) -> None:
        self.samples, self.wanted = samples, wanted
        self.accuracy = np.full(len(samples.split), np.nan)
        self._trained = self.accuracy.copy()
        self._known = np.zeros(len(samples.split), dtype=bool)  # a model that diverged has NaN, too
        self._waiting: dict[int, Vector] = {}

    def left(self, client: int, model: Vector) -> None:
        """A client's training left this model, (d,)."""
        if self.wanted and self.samples.holders[client]:
            self._waiting[client] = model
            if len(self._waiting) * model.nbytes > WAITING_BYTES:
                self._measure_waiting()

    def measure(self, model: Vector, personal: Callable[[int], Vector | None]) -> dict[str, float]:
        """Measures the models in use, see :meth:`OwnSamples.accuracies`; the columns' values of both kinds."""
        self._measure_waiting()
        self.accuracy = self.samples.accuracies(model, personal)
        scores = client_scores(self.accuracy[self.samples.holders], "accuracy")
        return scores | client_scores(self._trained[self._known], "trained_accuracy")

    def found(self) -> dict[str, NDArray[np.float64]]:
        """Both kinds, (clients,) each, NaN where there is none."""
        self._measure_waiting()
        return {"accuracy": self.accuracy, "trained": np.where(self._known, self._trained, np.nan)}

    def _measure_waiting(self) -> None:
        for client, model in self._waiting.items():
            self._trained[client], self._known[client] = self.samples.accuracy(model, client), True
        self._waiting.clear()

    def state(self) -> Arrays:
        """For checkpoints."""
        if not self.wanted:
            return {}
        state = {"accuracy": self.accuracy, "trained": self._trained.copy(), "known": self._known.copy()}
        if self._waiting:
            state |= {
                "waiting": np.array(list(self._waiting), dtype=np.int64),
                "waiting_models": np.stack(list(self._waiting.values())),
            }
        return state

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        if not self.wanted:
            return
        self.accuracy, self._trained, self._known = (np.array(state[name]) for name in ("accuracy", "trained", "known"))
        if "waiting" in state:
            self._waiting = dict(zip(state["waiting"].tolist(), np.array(state["waiting_models"]), strict=True))
