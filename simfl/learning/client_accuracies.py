"""Models run over many samples, and measured on those that belong to clients. Imported only where torch is."""

import copy
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch
from torch.func import functional_call, vmap

from simfl.clients.local_values import Vector
from simfl.core.errors import ScenarioError
from simfl.core.types import Arrays, Bools, Floats, Integers, Vectors
from simfl.learning.backends.base import TrainingTask
from simfl.learning.backends.trial import first_line
from simfl.learning.models.criterion import loss_method, sample_losses
from simfl.learning.models.flat import attach, is_recurrent, layout, size, views
from simfl.learning.objects.global_seeds import seed_generators
from simfl.learning.partitions.base import Split
from simfl.learning.scores import METRIC, client_scores, correct


class Predictor:
    """Runs a module over many samples, in the memory layout of training.

    ``many``: models are better measured many at once; on a processor a convolution's work outweighs all else, and
    recurrent layers are computed one after the other in any case. ``classified``: targets are classes.
    """

    def __init__(self, module: torch.nn.Module, device: torch.device, classified: bool = True) -> None:
        self.classified = classified
        self.module = copy.deepcopy(module).to(device).eval()
        self.entries = layout(module)
        self.flat = torch.zeros(size(self.entries), device=device)
        attach(self.module, self.flat)
        self.images = any(isinstance(layer, torch.nn.Conv2d) for layer in module.modules())
        alone = is_recurrent(module) or loss_method(module) is not None
        self.many = not alone and (device.type != "cpu" or not self.images)

    def __call__(self, model: Vectors, x: torch.Tensor, y: torch.Tensor) -> tuple[Floats, Integers]:
        """The loss of each sample, float64 (n,), and its predicted class, int64 (n,); -1 where there are none."""
        losses, classes = [], []
        with torch.inference_mode():
            for logits, labels in self._outputs(model, x, y):
                losses.append(sample_losses(self.module, logits, labels).double())
                classes.append(logits.argmax(1) if self.classified else labels.new_full((len(labels),), -1).long())
        return torch.cat(losses).cpu().numpy(), torch.cat(classes).cpu().numpy()

    def _outputs(self, model: Vectors, x: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Outputs, float32, and targets, a batch of samples after another."""
        self.flat.copy_(torch.from_numpy(model))
        images = x.dim() == 4 and self.images
        batch = 100 if images and x.device.type == "cpu" else 1000  # larger ones leave the processor's cache
        for part, labels in zip(torch.split(x, batch), torch.split(y, batch), strict=True):
            if images:
                part = part.to(memory_format=torch.channels_last)
            yield self.module(part).float(), labels

    def metrics(self, model: Vectors, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
        """What the method ``metrics(outputs, targets)`` of the module's class says of all samples, (n, ...) each, by
        names that begin with ``metric_``; nothing without one.

        Raises:
            ScenarioError: it fails, or gives anything else than names with numbers.
        """
        if not callable(method := getattr(type(self.module), "metrics", None)):
            return {}
        with torch.inference_mode(), seed_generators(0):
            outputs, targets = (torch.cat(parts) for parts in zip(*self._outputs(model, x, y), strict=True))
            try:
                said = method(self.module, outputs, targets)
                named = {f"{METRIC}{name}": float(value) for name, value in said.items()}
            except Exception as error:  # somebody else's code may raise anything
                why = f"metrics(outputs, targets) fails, or gives no mapping of names to numbers: {first_line(error)}"
                raise ScenarioError("learning.model", why) from error
        if wrong := [name for name in named if not name.isidentifier()]:
            why = f"metrics names '{wrong[0].removeprefix(METRIC)}'; names have letters, digits and _ only"
            raise ScenarioError("learning.model", why)
        return named

    def refusal(self, model: Vectors, task: TrainingTask) -> str | None:
        """Why a model cannot be measured on two samples of a task; None where it can."""
        try:
            losses, _ = self(model, task.x[:2], task.y[:2])
        except Exception as error:  # as above
            return f"cannot be measured: {first_line(error)}"
        return None if losses.shape == (len(task.y[:2]),) else f"has a loss of shape {list(losses.shape)} for 2 samples"

    def each(self, models: Vectors, x: torch.Tensor, y: torch.Tensor) -> tuple[Floats, Integers]:
        """The same of k models, (k, d), each on samples of its own, (k, n, *shape) and (k, n); results are (k, n)."""
        names = [entry.name for entry in self.entries]

        def logits(parts: list[torch.Tensor], samples: torch.Tensor) -> torch.Tensor:
            return functional_call(self.module, dict(zip(names, parts, strict=True)), (samples,))

        with torch.no_grad():
            flat = torch.from_numpy(models).to(self.flat.device)
            out = vmap(logits)(views(flat, self.entries), x).float()
            loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="none").view_as(y)
        return loss.double().cpu().numpy(), out.argmax(2).cpu().numpy()


AT_ONCE = 16
"""Models that are measured at once."""

WAITING_BYTES = 1 << 25
"""Models that wait to be measured take no more room than this, here and in a checkpoint."""


class ClientSamples:
    """Accuracies on every client's own samples, x float32 (n, *shape), of classes y, int64 (n,)."""

    def __init__(self, predictor: Predictor, x: torch.Tensor, y: torch.Tensor, split: Split) -> None:
        self.predictor, self.x, self.y, self.split = predictor, x, y, split
        self.labels = y.cpu().numpy()

    @cached_property
    def _shared_samples(self) -> tuple[Integers, Split]:
        """All clients' samples, once each, and the positions of each client's among them."""
        used, place = np.unique(self.split.indices, return_inverse=True)
        return used, Split(self.split.offsets, place.astype(np.int64))

    @property
    def holders(self) -> Bools:
        """Who has any, bool (clients,)."""
        return self.split.sizes > 0

    def accuracy(self, model: Vector, client: int) -> float:
        """Share of a client's samples that a model (d,) classifies rightly; NaN without any, or where it diverged."""
        if not self.split.sizes[client]:
            return float("nan")
        return float(self._right(model, self.split[client]).mean())

    def accuracies(self, model: Vector, personal: Callable[[int], Vector | None]) -> Floats:
        """The same of every client's model, (clients,), NaN where it has no samples.

        The global model, (d,), is measured once for all who use it: those whose ``personal`` model is None.
        """
        accuracies = np.full(len(self.split), np.nan)
        holders = np.flatnonzero(self.holders)
        at_once = AT_ONCE if self.predictor.many else 1
        shared: list[int] = []
        waiting: dict[int, Vector] = {}
        for client in holders.tolist():
            model_in_use = personal(client)
            if model_in_use is None:
                shared.append(client)
                continue
            waiting[client] = model_in_use
            if len(waiting) == at_once:
                self._fill(accuracies, waiting)
        if waiting:
            self._fill(accuracies, waiting)
        if shared:
            used, place = self._shared_samples
            right = self._right(model, used)
            accuracies[shared] = [right[place[client]].mean() for client in shared]
        return accuracies

    def _fill(self, accuracies: Floats, waiting: dict[int, Vector]) -> None:
        """Measures the models of these clients, many at once or one by one."""
        if self.predictor.many:
            accuracies[list(waiting)] = self._many(waiting)
        else:
            for client, model in waiting.items():
                accuracies[client] = self.accuracy(model, client)
        waiting.clear()

    def _many(self, models: dict[int, Vector]) -> Floats:
        """Accuracies of several models at once, padded to one shape, since rounding must not depend on their number."""
        most = int(self.split.sizes.max())
        index = np.zeros((AT_ONCE, most), dtype=np.int64)
        real = np.zeros((AT_ONCE, most), dtype=bool)
        stacked = np.zeros((AT_ONCE, len(next(iter(models.values())))), dtype=np.float32)
        for row, (client, model) in enumerate(models.items()):
            chosen = self.split[client]
            index[row, : len(chosen)], real[row, : len(chosen)], stacked[row] = chosen, True, model
        at = torch.from_numpy(index).to(self.x.device)
        loss, predicted = self.predictor.each(stacked, self.x[at], self.y[at])
        right = np.where(real, correct(loss, predicted, self.labels[index]), 0)
        return (right.sum(axis=1) / np.maximum(real.sum(axis=1), 1))[: len(models)]

    def _right(self, model: Vector, chosen: Integers) -> Floats:
        index = torch.from_numpy(chosen).to(self.x.device)
        loss, predicted = self.predictor(model, self.x[index], self.y[index])
        return correct(loss, predicted, self.labels[chosen])


class ClientAccuracies:
    """Accuracies of clients' models: those that they use, and those that their last training ended with, where
    ``wanted``.

    What training left is measured when somebody asks, so that models that are soon replaced are not measured at all;
    with ``best`` every one is, because a client's best accuracy so far is reported, too.
    """

    def __init__(self, samples: ClientSamples, wanted: bool, best: bool = False) -> None:
        self.samples, self.wanted, self.best = samples, wanted, best
        self.accuracy = np.full(len(samples.split), np.nan)
        self._trained, self._best = self.accuracy.copy(), self.accuracy.copy()
        self._known = np.zeros(len(samples.split), dtype=bool)  # a model that diverged has NaN, too
        self._waiting: dict[int, Vector] = {}

    def add_trained(self, client: int, model: Vector) -> None:
        """Notes the model, (d,), that a client's training ended with."""
        if self.wanted and self.samples.holders[client]:
            if self.best and client in self._waiting:
                self._measure_waiting()
            self._waiting[client] = model
            if len(self._waiting) * model.nbytes > WAITING_BYTES:
                self._measure_waiting()

    def measure(self, model: Vector, personal: Callable[[int], Vector | None]) -> dict[str, float]:
        """Measures the models in use, see :meth:`ClientSamples.accuracies`; the columns' values of all kinds."""
        self._measure_waiting()
        self.accuracy = self.samples.accuracies(model, personal)
        kinds = [("accuracy", self.accuracy, self.samples.holders), ("trained_accuracy", self._trained, self._known)]
        kinds += [("best_accuracy", self._best, self._known)] if self.best else []
        sizes = self.samples.split.sizes
        scores: dict[str, float] = {}
        for name, accuracy, known in kinds:
            scores |= client_scores(accuracy[known], sizes[known], name)
        return scores

    def by_client(self) -> dict[str, Floats]:
        """All kinds, (clients,) each, NaN where there is none."""
        self._measure_waiting()
        kinds = {"accuracy": self.accuracy, "trained": np.where(self._known, self._trained, np.nan)}
        return kinds | {"best": self._best.copy()} if self.best else kinds

    def _measure_waiting(self) -> None:
        for client, model in self._waiting.items():
            self._trained[client], self._known[client] = self.samples.accuracy(model, client), True
            self._best[client] = np.fmax(self._best[client], self._trained[client])  # NaN only where all diverged
        self._waiting.clear()

    def state(self) -> Arrays:
        """For checkpoints."""
        if not self.wanted:
            return {}
        state = {"accuracy": self.accuracy, "trained": self._trained.copy(), "known": self._known.copy()}
        if self.best:
            state["best"] = self._best.copy()
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
        if self.best:
            self._best = np.array(state["best"])
        if "waiting" in state:
            self._waiting = dict(zip(state["waiting"].tolist(), np.array(state["waiting_models"]), strict=True))
