"""What a client variant is: where a client starts from, what it keeps for itself, and what it sends.

A variant says how local training departs from plain SGD on the downloaded model. Its methods are pure: arrays in,
arrays out; whoever trains keeps the arrays, fills them on first use and saves them in checkpoints.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.registry import Registry
from simfl.types import Arrays, Job

__all__ = ["CLIENTS", "Begun", "ClientVariant", "Conclusion", "Done", "Parameter", "Visit"]

Vector = NDArray[np.float32]


class Parameter(NamedTuple):
    """One parameter of the model: elements ``start`` .. ``start + prod(shape)`` of the flat vector.

    Attributes:
        name: e.g. ``"0.weight"``.
        layer: class name of the layer that owns it, e.g. ``"Linear"``.
        start: its first element.
        shape: its shape.
    """

    name: str
    layer: str
    start: int
    shape: tuple[int, ...]


class Visit(NamedTuple):
    """What a client has before it works.

    Attributes:
        job: its job.
        downloaded: the global model it received, (d,); not to be changed.
        own: the arrays it kept from earlier jobs, empty at first.
        common: the server's arrays, as they were for the job's version.
        accuracy: share of its own training samples that a model (d,) classifies rightly.
        samples: training samples that it holds now.
    """

    job: Job
    downloaded: Vector
    own: Mapping[str, NDArray[Any]]
    common: Mapping[str, NDArray[Any]]
    accuracy: Callable[[Vector], float]
    samples: int = 0


@dataclass(frozen=True)
class Begun:
    """A pass of local training.

    Attributes:
        start: the model it starts from, (d,).
        shift: added to every gradient, (d,), or None.
        mask: bool (d,): coordinates that move; None = all.
    """

    start: Vector
    shift: Vector | None = None
    mask: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Done:
    """A client's work, finished.

    Attributes:
        delta: its update, (d,): what is added up, relative to the downloaded model.
        own: the arrays it keeps; None = as they were.
        report: added up over the clients for the server's arrays.
        holds: bool (d,): coordinates the update speaks about; None = all.
    """

    delta: Vector
    own: Arrays | None = None
    report: Arrays = field(default_factory=dict)
    holds: NDArray[np.bool_] | None = None


class Conclusion(NamedTuple):
    """The end of a round as one of its clients sees it.

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


class ClientVariant(Protocol):
    """A frozen dataclass whose fields are its YAML keys; what it leaves out is plain, dense and keeps nothing.

    Attributes:
        proximal: mu of the term mu/2 * |x - start|^2 added to the local loss.
        momentum: whether clients may use momentum.
        needs_rounds: it assumes synchronous rounds.
        partial: updates may speak about some coordinates only.
        dense: messages have the same sizes for all clients and versions.
        sized_by_training: the size of an upload is known only after training; such jobs are trained when they start.
        concludes: a client looks at what became of its update, and may leave for good (:meth:`conclude`). The run ends
            where fewer than two are left.
    """

    proximal: float = 0.0
    momentum: bool = True
    needs_rounds: bool = False
    partial: bool = False
    dense: bool = True
    sized_by_training: bool = False
    concludes: bool = False

    def common(self, parameters: Sequence[Parameter], dimension: int) -> Arrays:
        """The server's arrays before the first job."""
        return {}

    def begin(self, visit: Visit) -> Begun:
        """The first pass of a client's work."""
        return Begun(visit.downloaded)

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done | Begun:
        """What comes after a pass: the end, or another pass.

        Args:
            visit: what the client had.
            begun: the pass.
            delta: trained model minus ``begun.start``, (d,).
            steps: SGD steps of the pass.
            rate: their learning rate.
        """
        return Done(delta if begun.start is visit.downloaded else delta + (begun.start - visit.downloaded))

    def absorb(self, common: Mapping[str, NDArray[Any]], reported: Arrays, clients: int) -> Arrays:
        """The server's arrays for the next version.

        Args:
            common: as they were.
            reported: float64 sums of the clients' reports since then.
            clients: number of all clients, N.
        """
        return dict(common)

    def conclude(self, end: Conclusion, own: Mapping[str, NDArray[Any]]) -> tuple[Arrays, bool]:
        """What a client keeps of a round in whose sum it was, and whether it leaves; asked where ``concludes``."""
        return dict(own), False

    def bytes_down(self, dense: int, own: Mapping[str, NDArray[Any]]) -> int:
        """Size of what is sent to a client that keeps ``own``, where a dense model has ``dense`` bytes."""
        return dense

    def bytes_up(self, dense: int, own: Mapping[str, NDArray[Any]], done: Done | None) -> int:
        """Size of its update; ``done`` is known where the variant is ``sized_by_training``."""
        return dense

    def personal(self, model: Vector, own: Mapping[str, NDArray[Any]]) -> Vector | None:
        """The model a client itself uses, (d,), given the global one; None = the global one."""
        return None


CLIENTS = Registry("client", protocol=ClientVariant)
