"""What local training is given and gives back: the values that a client algorithm's methods take and return."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.payload import Download, Upload
from simfl.core.types import Arrays, Job

Vector = NDArray[np.float32]

ClientState = Mapping[str, NDArray[Any]]
"""What a client keeps from job to job, by name."""


class Parameter(NamedTuple):
    """One parameter of the model: elements ``start`` .. ``start + prod(shape)`` of the flat vector.

    Attributes:
        name: e.g. ``"0.weight"``.
        layer: class name of the layer that owns it, e.g. ``"Linear"``.
        start: its first element.
        shape: its shape.
        norm: the layer normalises; told by its class, whatever it is called.
        statistic: no parameter but a running statistic of such a layer; these stand behind all parameters.
    """

    name: str
    layer: str
    start: int
    shape: tuple[int, ...]
    norm: bool = False
    statistic: bool = False

    @property
    def elements(self) -> slice:
        """Where it lies in the flat vector."""
        return slice(self.start, self.start + prod(self.shape))


class LocalContext(NamedTuple):
    """Inputs of a client's local training.

    Attributes:
        job: its job.
        download: all that came to it with the job.
        state: the arrays it kept from earlier jobs, empty at first.
        accuracy: share of its own validation samples that a model (d,) classifies rightly; of its training samples
            where it keeps none for validation.
        samples: training samples that it holds now.
    """

    job: Job
    download: Download
    state: ClientState
    accuracy: Callable[[Vector], float]
    samples: int = 0


@dataclass(frozen=True)
class LocalPass:
    """One pass of local training: where it starts, and how gradients are changed.

    Attributes:
        start: the model it starts from, (d,).
        shift: added to every gradient, (d,), or None.
        mask: bool (d,): coordinates that move; None = all.
        proximal: mu of the term mu/2 * |x - start|^2 added to the local loss.
        epochs: passes over the samples; None = as many as the training rule says.
        repeats: the samples come in the order of the job's first pass.
        memo: whatever the algorithm wants back when the pass has ended.
        distance: beta of the term beta * |x - start| added to the local loss; its gradient is 0 at the start.
    """

    start: Vector
    shift: Vector | None = None
    mask: NDArray[np.bool_] | None = None
    proximal: float = 0.0
    epochs: int | None = None
    repeats: bool = False
    memo: Any = None
    distance: float = 0.0


@dataclass(frozen=True)
class LocalResult:
    """Result of a client's local training.

    Attributes:
        upload: all that leaves the client, of the kinds of parts in :attr:`simfl.clients.base.ClientAlgorithm.sends`.
        state: the arrays it keeps; None = as they were.
        row: added up over the clients for the algorithm's columns; what the simulator measures, not sent.
    """

    upload: Upload
    state: Arrays | None = None
    row: Mapping[str, float] = field(default_factory=dict)


class RoundOutcome(NamedTuple):
    """Outcome of a round as one of its clients sees it.

    Attributes:
        downloaded: the model it had received, (d,).
        delta: its update as training made it, (d,).
        sent: as it left the client, after all privacy stages, (d,).
        share: how much of the aggregate that was, its weight over the sum's divisor.
        model: the new global model, (d,).
    """

    downloaded: Vector
    delta: Vector
    sent: Vector
    share: float
    model: Vector
