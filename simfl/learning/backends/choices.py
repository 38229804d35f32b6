"""The backends that a scenario can name, and the choice among them. torch is imported when one is built."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError, requires_extra
from simfl.core.processor import processor
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, JobRequest, RemoteClients, Vectors
from simfl.learning.backends.base import BACKENDS, Backend, Engine, TrainingTask
from simfl.learning.work import Work

GROUPED_CAUTION = (
    "on this processor, which has no AVX-512, grouped takes up to 1.6 times as long as sequential "
    "(docs/how-to/backends.md); "
    "use auto"
)


@BACKENDS("sequential")
@dataclass(frozen=True)
class Sequential(Backend):
    """One client after the other, the parameters being views of one flat vector; any model."""

    plain_sgd = True

    def build(self, task: TrainingTask) -> Engine:
        from simfl.learning.backends.sequential_engine import SequentialEngine

        return SequentialEngine(task)


class Batched(Backend):
    """Computes clients side by side, and a model only if it then gives what it does alone.

    Attributes:
        by_layers: each layer's trained parameters are taken to be all that it has.
    """

    by_layers = True

    def refuses(self, task: TrainingTask) -> str | None:
        from simfl.learning.backends.trial import disagreement
        from simfl.learning.models.criterion import loss_method
        from simfl.learning.models.flat import frozen

        if loss_method(task.module) is not None:
            return "it computes cross-entropy, and the model has another loss; use sequential"
        if self.by_layers and (names := frozen(task.module)):
            return f"it trains all parameters of a layer, and '{names[0]}' is frozen; use vmap or sequential"
        return self.supports(task.module, task.bf16) or disagreement(self.build, task)


@BACKENDS("dense")
@dataclass(frozen=True)
class Dense(Batched):
    """Many clients as batched matrix products, forward and backward pass written out; fully connected models."""

    plain_sgd = True

    def supports(self, module: object, bf16: bool) -> str | None:
        from torch import nn

        from simfl.learning.models.resnet import Margin

        layers = list(module) if isinstance(module, nn.Sequential) else []
        while layers and isinstance(layers[0], nn.Flatten):
            layers.pop(0)
        if len(layers) == 2 and isinstance(layers[1], Margin):
            layers.pop()
        linear = all(isinstance(layer, nn.Linear) and layer.bias is not None for layer in layers[::2])
        if len(layers) % 2 == 0 or not linear or not all(isinstance(layer, nn.ReLU) for layer in layers[1::2]):
            return "it takes models of linear layers with ReLU between them only (logistic, binary_logistic, mlp)"
        return "it computes in float32 only; set bf16 to false" if bf16 else None

    def build(self, task: TrainingTask) -> Engine:
        from simfl.learning.backends.cohort_engine import CohortEngine
        from simfl.learning.backends.replicas import DenseNetwork, MarginNetwork
        from simfl.learning.models.resnet import Margin

        network = MarginNetwork if isinstance(task.module[-1], Margin) else DenseNetwork
        return CohortEngine(task, network(task.module), _cohort(task, 24, 256))


Cohort = Annotated[int | None, Field(ge=1, description="clients computed at once; null = as measured to be fastest")]


@BACKENDS("grouped")
@dataclass(frozen=True)
class Grouped(Batched):
    """Many clients as one network of grouped convolutions; models that are a sequence of layers."""

    plain_sgd = True

    cohort: Cohort = None

    def cautions(self, setting: ScenarioView) -> list[str]:
        """That it gains nothing here."""
        here = processor()
        return [GROUPED_CAUTION] if here.widest is not None and not here.avx512 else []

    def supports(self, module: Any, bf16: bool) -> str | None:
        from simfl.learning.backends.replicas import reason_unsupported

        return reason_unsupported(module)

    def build(self, task: TrainingTask) -> Engine:
        from simfl.learning.backends.cohort_engine import CohortEngine
        from simfl.learning.backends.replicas import GroupedNetwork

        # a constant number of copies keeps a client's bits independent of its company; a GPU promises no such bits
        fixed = task.x.device.type == "cpu"
        return CohortEngine(task, GroupedNetwork(task.module, task.bf16), self.cohort or _cohort(task, 6, 64), fixed)


@BACKENDS("vmap")
@dataclass(frozen=True)
class Vmap(Batched):
    """Many clients through torch.func.vmap; models of batchable operations whose samples do not interact.

    The one backend whose bits depend on which jobs are trained together (the same jobs give the same bits).
    """

    plain_sgd = True
    by_layers = False

    cohort: Cohort = None

    def supports(self, module: Any, bf16: bool) -> str | None:
        from simfl.learning.models.flat import is_recurrent, layout

        if any(not entry.trained for entry in layout(module)):
            return "the samples that fill up its steps would count in running statistics; use grouped or sequential"
        if is_recurrent(module):
            return "torch.func.vmap computes a recurrent layer of one client after the other; use sequential"
        return None

    def refuses(self, task: TrainingTask) -> str | None:
        from simfl.learning.backends.trial import influence

        return super().refuses(task) or influence(task)

    def build(self, task: TrainingTask) -> Engine:
        from simfl.learning.backends.cohort_engine import CohortEngine
        from simfl.learning.backends.replicas import VmapNetwork

        return CohortEngine(task, VmapNetwork(task.module, task.bf16), self.cohort or _cohort(task, 6, 64))


def _cohort(task: TrainingTask, cpu: int, most: int) -> int:
    """On a processor small cohorts stay in its cache; a GPU wants many clients at once, as far as they fit."""
    from simfl.learning.backends.cohort_engine import replica_count

    return cpu if task.x.device.type == "cpu" else replica_count(task, most)


@BACKENDS("processes")
@dataclass(frozen=True)
class Processes:
    """The clients of a call spread over processes of one thread each; the same bits for any number of them.

    Inside a process works what ``auto`` chooses for a processor. Runs of a sweep in parallel are faster still.
    """

    plain_sgd = True

    workers: Annotated[int, Field(ge=1, le=1024, description="processes; their number changes no result")] = 2

    def build(self, task: TrainingTask) -> Engine:
        from simfl.learning.backends.process_engine import ProcessEngine

        if task.x.device.type != "cpu":
            raise ScenarioError("", "processes computes on the processor; set learning.device to cpu")
        inner = Auto().choose(task)
        return ProcessEngine(task, inner, self.workers, one_by_one=isinstance(inner, Sequential))


@BACKENDS("dask")
@dataclass(frozen=True)
class DaskWorkers:
    """The clients of a call dealt to the workers of a Dask cluster; the same bits for any workers, also dying ones.

    Their processors must be of one kind: last digits differ between makers.

    ``simfl run --scheduler ADDRESS`` names a cluster; without, one of ``workers`` processes is started on this machine.
    Inside a worker works what ``auto`` chooses for a processor.
    """

    plain_sgd = True

    workers: Annotated[int, Field(ge=1, le=1024, description="processes where no scheduler is named")] = 2

    uses_cluster = True

    def build(self, task: TrainingTask) -> Engine:
        with requires_extra("cluster", "backend dask"):
            from simfl.learning.backends.dask_engine import DaskEngine
        if task.x.device.type != "cpu":
            raise ScenarioError("", "dask computes on processors; set learning.device to cpu")
        inner = Auto().choose(task)
        return DaskEngine(task, inner, self.workers, one_by_one=isinstance(inner, Sequential))


@BACKENDS("auto")
@dataclass(frozen=True)
class Auto:
    """``dense`` where it applies, else ``sequential``; on a GPU ``grouped`` or ``vmap`` before that.

    By measurement the fastest for most models, and the same on every processor, for any number of jobs, processes and
    machines that share them: what is computed does not depend on the machine, only how the last digits are rounded.
    """

    plain_sgd = True

    def build(self, task: TrainingTask) -> Engine:
        return self.choose(task).build(task)

    def choose(self, task: TrainingTask) -> Backend:
        """The backend that ``auto`` stands for."""
        here = AUTO.get(task.x.device.type, AUTO["cuda"])
        return next(choice for choice in here if choice.refuses(task) is None)


AUTO: dict[str, tuple[Backend, ...]] = {
    "cpu": (Dense(), Sequential()),  # benchmarks/learning.py, docs/how-to/backends.md: with AVX-512 and with AVX2
    "cuda": (Dense(), Grouped(), Vmap(), Sequential()),  # not measured: benchmarks/gpu.py is to decide it
}
"""What ``auto`` tries, by kind of device, in this order; other devices count as the second."""


MOST_REMOTE = 1000
"""Remote clients; each is a process that asks again and again."""


@BACKENDS("external")
@dataclass(frozen=True)
class External:
    """Some clients are processes of their own, which ``simfl serve`` asks for their updates; the others train here.

    The clock stays simulated: a remote job takes its modelled time, and the world waits for its bytes. Clients that
    train by simfl's own code give the bits of the backend ``inner``.
    """

    clients: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(min_length=1, max_length=MOST_REMOTE, description="numbers of the remote clients"),
    ]
    inner: Annotated[Any, BACKENDS, Field(description="trains the other clients")] = Auto()

    example = {"clients": [0]}

    @property
    def external(self) -> tuple[int, ...]:
        return self.clients

    @property
    def plain_sgd(self) -> bool:
        """Remote clients are taken to train as they are told."""
        return bool(self.inner.plain_sgd)

    @property
    def uses_cluster(self) -> bool:
        return bool(self.inner.uses_cluster)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = []
        if len(set(self.clients)) < len(self.clients):
            problems.append(("clients", "names a client twice"))
        if beyond := [client for client in self.clients if client >= setting.clients]:
            problems.append(("clients", f"names {beyond[0]}, but clients are 0 .. {setting.clients - 1}"))
        if self.inner.external:
            problems.append(("inner", "has remote clients, too; name a backend that does not, such as auto"))
        if self.inner.own_steps:
            problems.append(("inner", "is a function of your own, which remote clients do not call; name another"))
        if not setting.training.algorithm.stateless:
            name = setting.training.algorithm.name
            problems.append(("", f"remote clients cannot train by '{name}', only plainly, or by fedprox"))
        return problems

    def supports(self, module: object, bf16: bool) -> str | None:
        return self.inner.supports(module, bf16)

    def refuses(self, task: TrainingTask) -> str | None:
        return self.inner.refuses(task)

    def without_remote_clients(self) -> Backend:
        return self.inner

    def build(self, task: TrainingTask) -> Engine:
        inner = self.inner.build(replace(task, means=replace(task.means, remote_clients=None)))
        return _SplitEngine(inner, frozenset(self.clients), task.means.remote_clients)


class _SplitEngine:
    """Trains the local clients' works while the remote clients train theirs."""

    def __init__(self, inner: Engine, clients: frozenset[int], remote: RemoteClients | None) -> None:
        self.inner, self.clients, self.remote = inner, clients, remote

    def train(self, works: Sequence[Work]) -> tuple[Vectors, Floats]:
        away = [work.job is not None and work.job.client in self.clients for work in works]
        if not any(away):
            return self.inner.train(works)
        if self.remote is None:
            why = "some clients are processes of their own; simfl serve runs the scenario with them"
            raise ScenarioError("backend", why)
        requests = [
            JobRequest(work.job, work.start, len(work.order))
            for work in works
            if work.job is not None and work.job.client in self.clients
        ]
        self.remote.request(requests)
        deltas, loss = np.empty((len(works), len(works[0].start)), dtype=np.float32), np.empty(len(works))
        there = np.array(away)
        if here := [work for work, gone in zip(works, away, strict=True) if not gone]:
            deltas[~there], loss[~there] = self.inner.train(here)
        results = self.remote.collect(requests)
        deltas[there], loss[there] = np.stack([each.delta for each in results]), [each.loss for each in results]
        return deltas, loss
