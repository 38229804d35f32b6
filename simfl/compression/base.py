"""What a compression is: it codes an update in fewer bytes, whose number is known before anything is trained."""

from abc import abstractmethod
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Protocol

from pydantic import Field

from simfl.core.payload import VALUE_BYTES, PayloadPart
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Integers, Job, Vectors

COORDINATES = PayloadPart("which coordinates of its update it sends", "mask", instead="compression: random_k")
"""Sent where each client sends other ones: a coordinate of the sum may then hold one client alone."""

LEVELS = PayloadPart("its update in multiples of a scale of its own", "levels", instead="compression: random_k")
"""Sent where each client rounds to few values of its own: by these a sum can be taken apart."""

Share = Annotated[
    float, Field(gt=0, le=1, description="share of the coordinates that are sent, k of d; rounded up to a whole k")
]

ErrorFeedback = Annotated[
    bool, Field(description="a client adds what compression has left out of its updates so far to its next one")
]


class Compression(Plugin, Protocol):
    """A way of coding updates: a frozen dataclass whose methods are pure.

    With error feedback a client compresses the sum of its update and of its residual, and what is left out of that is
    its next residual; the server's agent keeps the residuals (:mod:`simfl.agents.aggregation.pipeline`).

    The sign of each coordinate and one scale, the mean magnitude (1 + 2 + 3) / 3 = 2, take one byte and four:

    >>> from simfl.compression.quantise import Sign
    >>> import numpy as np
    >>> compression, update = Sign(), np.array([[1.0, -2.0, 3.0]], dtype=np.float32)
    >>> compression.client(update, (), Streams(0)).tolist(), compression.size_bytes(3)
    ([[2.0, -2.0, 2.0]], 5)

    Attributes:
        codes: what is sent is another vector than the update.
        error_feedback: clients keep a residual.
        leaves_sent: coordinates that are sent are those of the update, times one number for all clients; a compression
            has to say so, as noise that was added one by one asks for.
        per_client: what a client sends depends on no other client's update of the same sum; a compression has to say
            so, since else one client may move what others send.
    """

    codes: bool = True
    error_feedback: bool = False
    leaves_sent: bool = False
    per_client: bool = False

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        """What its messages tell of single clients though they are summed; none where all send the same coordinates.

        A compression that does not say so tells everything.
        """
        return COORDINATES, LEVELS

    @abstractmethod
    def size_bytes(self, dimension: int) -> int:
        """Of an update of so many coordinates on the wire."""

    def length(self, dimension: int) -> int:
        """Coordinates, of so many, that all clients of a round send; all others are 0 in their sum."""
        return dimension

    @property
    def subsamples(self) -> bool:
        """Whether an update that stays may lose other coordinates in each round; a compression has to deny it."""
        return True

    def coordinates(self, dimension: int, number: int, streams: Streams) -> Integers | None:
        """Which coordinates all clients of round (or selection) ``number`` send, int64 (k,), ascending; None = all."""
        return None

    @abstractmethod
    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        """What the server reads of the messages of n clients, (n, d), of their vectors, finite, (n, d)."""


COMPRESSIONS = Registry[Compression](
    "compression",
    promises=("leaves_sent", "per_client", "exposes", "subsamples"),
    protocol=Compression,
    modules=modules_of("simfl.compression", quantise="quantise sign", sparsification="random_k top_k"),
)
"""The scenario's ``compression``."""


def count_share(share: float, dimension: int) -> int:
    """k: a share of d coordinates, rounded up; 0 of none."""
    return min(dimension, ceil(round(share * dimension, 6)))


def at_most_dense(size_bytes: int, dimension: int) -> int:
    """Where a code takes more than d plain numbers, what it stands for is sent as these."""
    return min(size_bytes, VALUE_BYTES * dimension)


@COMPRESSIONS("none")
@dataclass(frozen=True)
class NoCompression(Compression):
    """Four bytes a coordinate."""

    codes = False
    subsamples = False

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return ()

    def size_bytes(self, dimension: int) -> int:
        return VALUE_BYTES * dimension

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        return vectors
