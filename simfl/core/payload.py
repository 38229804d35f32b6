"""All that crosses between a client and whoever aggregates in one job: one value each way, in declared parts.

A client algorithm declares the parts of what its clients send (:attr:`simfl.clients.base.ClientAlgorithm.sends`). Byte
counts, privacy stages, aggregation protocols, accountants and guarantees read this declaration and say which kinds of
parts they cover (:mod:`simfl.core.coverage`); training checks that nothing else is sent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Arrays

Vector = NDArray[np.float32]

Kind = Literal["update", "array", "mask", "levels", "model", "score", "samples", "count", "departure"]
"""What a part is: the ``update`` that is summed; a further ``array`` of which the server needs the sum; the ``mask``
of coordinates that the update speaks about; the few ``levels`` of its own to which it is rounded; a whole ``model`` of
one client; a ``score``, a number computed from the client's samples; the number of its ``samples``, with which its
update is weighted; the same number as a ``count`` that is told by itself; its ``departure``, which tells that it has
looked at its model."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

SUMMABLE: frozenset[Kind] = frozenset({"update", "samples"})
"""Kinds that pass through stages and protocols: only these can be covered. Sums are weighted with sample counts."""

VALUE_BYTES = 4
"""Of a coordinate on the wire."""

SCORE_BYTES = 8
"""Of a score on the wire."""


class PayloadPart(NamedTuple):
    """A part of what clients send, or receive.

    Attributes:
        name: what messages and pages call it, a noun phrase: "the change of its control variate".
        kind: what it is.
        models: its size in dense models; 0 where it is known only after training, or nothing.
        instead: what to choose so that it is not sent, as keys of the scenario.
    """

    name: str
    kind: Kind
    models: float = 0.0
    instead: str = ""


UPDATE = PayloadPart("its update", "update", 1.0)

MODEL = PayloadPart("the global model", "model", 1.0)

SAMPLES = PayloadPart("the number of its samples", "samples", instead="training.weighting: equal")
"""Sent where updates are weighted by it; part of a message's header, of no bytes."""

MASK = PayloadPart("the mask of the coordinates that its update speaks about", "mask")

DEPARTURE = PayloadPart("its departure", "departure")
"""Sent by algorithms whose clients may leave as their data decide."""

ALONE = PayloadPart("the model that it has trained alone", "model", 1.0)
"""Sent before the first round where one of these is what all begin with."""


@dataclass(frozen=True)
class Upload:
    """All that leaves a client in one job.

    Attributes:
        update: (d,): what is summed, relative to the downloaded model.
        arrays: further arrays, float, by name: their sums over the clients are handed to
            :meth:`simfl.clients.base.ClientAlgorithm.update_common`.
        mask: bool (d,): the coordinates whose values are sent; the server is told which these are. None = all that
            may leave the client.
        mask_bytes: what telling the mask takes; 0 where the server knows it already.
        scores: numbers computed from the client's samples, by name.
    """

    update: Vector
    arrays: Arrays = field(default_factory=dict)
    mask: NDArray[np.bool_] | None = None
    mask_bytes: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its parts."""
        there = {"array": self.arrays, "mask": self.mask is not None, "score": self.scores}
        return frozenset({"update", *(kind for kind, parts in there.items() if parts)})

    def size_bytes(self, private: NDArray[np.bool_] | None = None) -> int:
        """Its size on the wire.

        Args:
            private: bool (d,): coordinates that never leave a client; None = there are none.
        """
        arrays = sum(prod(np.shape(array)) for array in self.arrays.values())
        values = sent_values(len(self.update), self.mask, private)
        return VALUE_BYTES * (values + arrays) + self.mask_bytes + SCORE_BYTES * len(self.scores)


class Download(NamedTuple):
    """All that comes to a client with one job.

    Attributes:
        model: the global model, (d,); not to be changed.
        arrays: the server's arrays, as they were for the job's version.
    """

    model: Vector
    arrays: Mapping[str, NDArray[Any]]


def dense_bytes(parts: Iterable[PayloadPart], dense: int, private: NDArray[np.bool_] | None = None) -> int:
    """Bytes of parts whose size is known before training.

    Args:
        parts: what is sent.
        dense: size of a dense model, bytes.
        private: bool (d,): coordinates that never leave a client; None = there are none.
    """
    private_bytes = 0 if private is None else VALUE_BYTES * int(np.count_nonzero(private))
    return max(0, int(dense * sum(part.models for part in parts)) - private_bytes)


def sent_values(dimension: int, mask: NDArray[np.bool_] | None, private: NDArray[np.bool_] | None) -> int:
    """Coordinates whose values are sent: of ``mask``, bool (d,), those that are not ``private``, bool (d,)."""
    if mask is None:
        return dimension - (0 if private is None else int(np.count_nonzero(private)))
    return int(np.count_nonzero(mask if private is None else mask & ~private))
