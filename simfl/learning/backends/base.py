"""What a backend is: a way to compute many clients' local training. All give the same updates up to rounding."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import RuntimeOptions, ScenarioView
from simfl.core.types import Floats, Vectors
from simfl.learning.objects.shorthand import shorthand

if TYPE_CHECKING:
    from simfl.learning.work import Work


@dataclass(frozen=True)
class Sgd:
    """Settings of the local optimiser, the same for every step of every job.

    The gradient of the mean loss over the step's samples plus proximal / 2 * |x - start|^2 + distance * |x - start| is
    clipped to ``clip_norm``; the job's shift and weight_decay * x are added; the job's mask is applied; then the
    momentum of torch.optim.SGD. Running statistics, which stand behind the parameters, take no part: each step in
    training mode moves them.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None


@dataclass(frozen=True)
class TrainingTask:
    """A training task: model, samples, and settings.

    Attributes:
        module: the model, a torch.nn.Module.
        x: torch.float32 (n, *shape), the training samples.
        y: torch.int64 (n,), their classes; or what the module's method ``loss`` takes, (n, ...).
        batch_size: samples of the largest step that any client makes.
        crop: border of augmented images in pixels.
        bf16: compute products in bfloat16.
        means: with what the run is computed, besides its scenario.
    """

    module: Any
    x: Any
    y: Any
    batch_size: int
    sgd: Sgd
    crop: int = 0
    flip: bool = False
    bf16: bool = False
    means: RuntimeOptions = RuntimeOptions()


class Engine(Protocol):
    """A backend built for one task."""

    def train(self, works: Sequence["Work"]) -> tuple[Vectors, Floats]:
        """Deltas (n, d) and mean losses of the last pass (n,) of n >= 1 works, each with at least one step.

        The same works give the same bits. On a processor a work's result has the same bits whatever other works are
        in the call, ``vmap`` excepted.
        """


class Backend(Plugin, Protocol):
    """A backend's YAML choice; ``build`` imports torch.

    One step of logistic regression on the sample x = 1 of class 1, from weights and biases of 0: both classes have
    probability 1/2, the loss is log 2 = 0.6931, the gradient (1/2, -1/2) for weights and biases alike:

    >>> import torch
    >>> from simfl.learning.backends.choices import Sequential
    >>> from simfl.learning.work import Work
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, 2))
    >>> task = TrainingTask(module, x=torch.tensor([[1.0]]), y=torch.tensor([1]), batch_size=1, sgd=Sgd())
    >>> import numpy as np
    >>> work = Work(np.zeros(4, dtype=np.float32), order=np.array([0]), bounds=(0, 1), last_pass=0, rate=0.1)
    >>> deltas, losses = Sequential().build(task).train([work])
    >>> deltas.astype(float).round(4).tolist(), losses.round(4).tolist()
    ([[-0.05, 0.05, -0.05, 0.05]], [0.6931])

    Attributes:
        external: the remote clients, which are processes of their own.
        plain_sgd: its steps are those of SGD with the rule's batches, rate and penalties; a backend has to say so, as
            epsilons of single samples ask for.
        uses_cluster: whether it works on a cluster, whose scheduler may be named (``RuntimeOptions.scheduler``).
        own_steps: it trains a module in ways of its own, of which neither the steps nor the draws are simfl's.
    """

    external: tuple[int, ...] = ()
    uses_cluster: bool = False
    plain_sgd: bool = False
    own_steps: bool = False

    def prepare(self, setting: ScenarioView) -> "Backend":
        """The backend that can be built, where that takes something from the scenario around it; itself as a rule.

        Raises:
            ScenarioError: what it needs is not there.
        """
        return self

    def supports(self, module: object, bf16: bool) -> str | None:
        """Why this backend cannot train the module (in bfloat16), or None."""
        return None

    def refuses(self, task: TrainingTask) -> str | None:
        """Why this backend cannot carry out a task, by :meth:`supports` or because it was tried; or None."""
        return self.supports(task.module, task.bf16)

    @abstractmethod
    def build(self, task: TrainingTask) -> Engine:
        """The engine for a task."""

    def choose(self, task: TrainingTask) -> "Backend":
        """The backend that trains the task; itself where it is no choice among others."""
        return self

    def without_remote_clients(self) -> "Backend":
        """The backend of the same scenario where no client is remote."""
        return self


BACKENDS = Registry[Backend](
    "backend",
    shorthand=shorthand,
    promises=("plain_sgd",),
    protocol=Backend,
    modules=modules_of(
        "simfl.learning.backends", "python", choices="auto dask dense external grouped processes sequential vmap"
    ),
)
