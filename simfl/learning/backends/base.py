"""What a backend is: a way to compute many clients' local training. All give the same updates up to rounding."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.learning.work import Work
from simfl.registry import Registry
from simfl.setting import Means

__all__ = ["BACKENDS", "Backend", "Engine", "Sgd", "Task"]


@dataclass(frozen=True)
class Sgd:
    """What every step of every job has in common.

    The gradient of the mean loss over the step's samples plus proximal / 2 * |x - start|^2 is clipped to
    ``clip_norm``; the job's shift and weight_decay * x are added; the job's mask is applied; then the momentum of
    torch.optim.SGD. Running statistics, which stand behind the parameters, take no part: each step in training mode
    moves them.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None


@dataclass(frozen=True)
class Task:
    """What a backend trains on.

    Attributes:
        module: the model, a torch.nn.Module.
        x: torch.float32 (n, *shape), the training samples.
        y: torch.int64 (n,), their classes.
        batch_size: samples of the largest step that any client makes.
        sgd: the settings of the local optimiser.
        crop: border of augmented images in pixels.
        flip: images are mirrored at random.
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
    means: Means = Means()


class Engine(Protocol):
    """A backend at work on one task."""

    def train(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Deltas (n, d) and mean losses of the last pass (n,) of n >= 1 works, each with at least one step.

        The same works give the same bits. On a processor a work's result has the same bits whatever other works are
        in the call, ``vmap`` excepted.
        """
        ...


class Backend(Protocol):
    """A backend's YAML choice; ``build`` imports torch.

    Attributes:
        external: the clients that train outside, as processes of their own.
        clustered: whether it works on a cluster, whose scheduler may be named (``Means.scheduler``).
    """

    external: tuple[int, ...] = ()
    clustered: bool = False

    def supports(self, module: Any, bf16: bool) -> str | None:
        """Why this backend cannot train the module (in bfloat16), or None."""
        return None

    @abstractmethod
    def build(self, task: Task) -> Engine:
        """The backend at work on a task."""
        ...

    def inside(self) -> "Backend":
        """The backend of the same scenario where no client trains outside."""
        return self


BACKENDS = Registry("backend", protocol=Backend)
