"""What a client variant is: where a client starts from, what it keeps for itself, and what it sends.

A variant says how local training departs from plain SGD on the downloaded model. Its methods are pure: arrays in,
arrays out; whoever trains keeps the arrays, fills them on first use and saves them in checkpoints.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.payload import MODEL, UPDATE, Download, Part, Upload, dense_bytes
from simfl.registry import Registry
from simfl.types import Arrays, Job

__all__ = [
    "CLIENTS", "PERSONAL", "UPDATE", "Begun", "ClientVariant", "Conclusion", "Done", "Download", "Parameter", "Part",
    "Upload", "Visit",
]  # fmt: skip

Vector = NDArray[np.float32]


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


class Visit(NamedTuple):
    """What a client has before it works.

    Attributes:
        job: its job.
        download: all that came to it with the job.
        own: the arrays it kept from earlier jobs, empty at first.
        accuracy: share of its own validation samples that a model (d,) classifies rightly; of its training samples
            where it keeps none for validation.
        samples: training samples that it holds now.
    """

    job: Job
    download: Download
    own: Mapping[str, NDArray[Any]]
    accuracy: Callable[[Vector], float]
    samples: int = 0


@dataclass(frozen=True)
class Begun:
    """A pass of local training.

    Attributes:
        start: the model it starts from, (d,).
        shift: added to every gradient, (d,), or None.
        mask: bool (d,): coordinates that move; None = all.
        proximal: mu of the term mu/2 * |x - start|^2 added to the local loss.
        epochs: passes over the samples; None = as many as the training rule says.
        repeats: the samples come in the order of the job's first pass.
        memo: whatever the variant wants to find again when the pass has ended.
    """

    start: Vector
    shift: Vector | None = None
    mask: NDArray[np.bool_] | None = None
    proximal: float = 0.0
    epochs: int | None = None
    repeats: bool = False
    memo: Any = None


@dataclass(frozen=True)
class Done:
    """A client's work, finished.

    Attributes:
        upload: all that leaves the client; the kinds of its parts are declared in :attr:`ClientVariant.sends`.
        own: the arrays it keeps; None = as they were.
        row: added up over the clients for the variant's columns; what the simulator measures, not sent.
    """

    upload: Upload
    own: Arrays | None = None
    row: Mapping[str, float] = field(default_factory=dict)


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
        momentum: whether clients may use momentum.
        needs_rounds: it assumes synchronous rounds.
        sends: the parts of all that leaves a client, in jobs and before the first one (:mod:`simfl.payload`); empty =
            nothing does. Read of the plugin that the scenario names, before it is fitted to a model.
        receives: the parts of all that comes to a client.
        partial: a coordinate is averaged over those clients whose upload's mask holds it.
        dense: messages have the same sizes for all clients and versions.
        sized_by_training: the size of an upload is known only after training; such jobs are trained when they start.
        passes: how often a job makes its epochs, where that is known before training.
        columns: what ``Done.row`` adds to rounds.csv.
        private: bool (d,): coordinates that never leave a client; None = there are none.
        stateless: a client makes one pass from the downloaded model, moves all coordinates by plain gradients (a
            proximal term aside) and keeps nothing for later; only such clients may be processes outside.
        concludes: a client looks at what became of its update, and may leave for good (:meth:`conclude`). The run ends
            where fewer than two are left.
    """

    momentum: bool = True
    needs_rounds: bool = False
    sends: tuple[Part, ...] = (UPDATE,)
    receives: tuple[Part, ...] = (MODEL,)
    partial: bool = False
    dense: bool = True
    sized_by_training: bool = False
    stateless: bool = False
    concludes: bool = False
    passes: float = 1.0
    columns: tuple[Column, ...] = ()
    private: NDArray[np.bool_] | None = None

    @property
    def follows_data(self) -> bool:
        """Whether its data may decide if a client takes part; surely not where clients never leave by themselves."""
        return self.concludes

    @property
    def repeats(self) -> bool:
        """Whether a client that holds as many samples as before has the very same model again."""
        return False

    def over(self, client: "ClientVariant") -> "ClientVariant":
        """What clients play where ``training.personal`` names this variant and ``training.client`` the other one."""
        return self

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> "ClientVariant":
        """The variant for a model with these parameters and the initial values x(0), (d,); asked once, first of all.

        Raises:
            ScenarioError: it cannot play with such a model.
        """
        return self

    def common(self, parameters: Sequence[Parameter], dimension: int) -> Arrays:
        """The server's arrays before the first job."""
        return {}

    def begin(self, visit: Visit) -> Begun:
        """The first pass of a client's work."""
        return Begun(visit.download.model)

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done | Begun:
        """What comes after a pass: the end, or another pass.

        Args:
            visit: what the client had.
            begun: the pass.
            delta: trained model minus ``begun.start``, (d,).
            steps: SGD steps of the pass.
            rate: their learning rate.
        """
        model = visit.download.model
        return Done(Upload(delta if begun.start is model else delta + (begun.start - model)))

    def absorb(self, common: Mapping[str, NDArray[Any]], reported: Arrays, clients: int) -> Arrays:
        """The server's arrays for the next version.

        Args:
            common: as they were.
            reported: float64 sums of the arrays that clients have uploaded since then.
            clients: number of all clients, N.
        """
        return dict(common)

    def conclude(self, end: Conclusion, own: Mapping[str, NDArray[Any]]) -> tuple[Arrays, bool]:
        """What a client keeps of a round in whose sum it was, and whether it leaves; asked where ``concludes``."""
        return dict(own), False

    def bytes_down(self, dense: int, own: Mapping[str, NDArray[Any]]) -> int:
        """Size of what is sent to a client that keeps ``own``, where a dense model has ``dense`` bytes."""
        return dense_bytes(self.receives, dense, self.private)

    def bytes_up(self, dense: int, own: Mapping[str, NDArray[Any]], done: Done | None) -> int:
        """Size of all that it sends; ``done`` is known where the variant is ``sized_by_training``."""
        return dense_bytes(self.sends, dense, self.private) if done is None else done.upload.size_bytes(self.private)

    def personal(self, model: Vector, own: Mapping[str, NDArray[Any]]) -> Vector | None:
        """The model a client itself uses, (d,), given the global one; None = the global one."""
        return None

    def apart(self) -> "tuple[int, ClientVariant] | None":
        """Rounds that every client trains by itself before the first one, and the variant that it then plays.

        The best model found so becomes x(0), and what :meth:`handed_on` says everybody's first arrays. None = none.
        """
        return None

    def handed_on(self, own: Mapping[str, NDArray[Any]]) -> Arrays:
        """Which of the arrays of the client whose model was best everybody begins with."""
        return {}

    def tune(self, visit: Visit) -> Begun | None:
        """What a client trains from the global model when it is measured; nothing of it is kept. None = nothing."""
        return None


CLIENTS = Registry("client", protocol=ClientVariant)
PERSONAL = Registry("personal", protocol=ClientVariant)
"""Variants that are ways to personal models."""
