"""What a session of a protocol takes, yields and returns: its cohort, its phases, and the result."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simfl.core.json_data import JsonObject
from simfl.core.types import Job, Receipts, Units


class PhaseRequest(NamedTuple):
    """One phase of a session with a whole cohort: sizes and times, no tensors.

    Attributes:
        kind: names the phase in traces, timelines and failure models, e.g. ``"share"``.
        to: who is asked, int32 (n,), distinct.
        down_bytes, up_bytes: sizes of the request and of the answer, a number or (n,).
        compute_s: seconds each needs for its answer, a number or (n,).
        quorum: answers after which the server goes on; None = all that can come.
        unit: so many clients in a row count for the quorum together, as soon as all of them have answered.
        deadline_s: seconds after which it goes on with what it has; None = it waits.
    """

    kind: str
    to: NDArray[np.int32]
    down_bytes: Any = 0
    up_bytes: Any = 0
    compute_s: Any = 0.0
    quorum: int | None = None
    deadline_s: float | None = None
    unit: int = 1


class Cohort(NamedTuple):
    """Whom a protocol serves.

    Attributes:
        number: of the aggregation; with "secagg" the address of the protocol's random streams.
        units: int32 (units, size): clients that are summed together or not at all.
        dimension: coordinates of an update, d.
        clients: of the scenario; some protocols have all of them help.
        heaviest: the largest weight that any client's update can carry; public, so that sums can be sized for it.
        empty: bool (clients,): who trains on no samples, whose update is 0 and hides nobody; None = nobody is known to.
        seeds: further secrets of each client, of which those after the first D are opened where D clients drop out.
        row: float64 (units, size): what the participation matrix holds for each update, before a protocol rounds it;
            None = 1.
        attempt: how many sums of this aggregation have failed because of what the server had drawn.
        receipts: what clients sign, also of a protocol's keys, where the server may lie; None = nothing.
    """

    number: int
    units: Units
    dimension: int
    clients: int = 0
    heaviest: float = 1.0
    empty: NDArray[np.bool_] | None = None
    seeds: int = 0
    row: NDArray[np.float64] | None = None
    attempt: int = 0
    receipts: Receipts | None = None

    def hiding(self, members: NDArray[np.bool_]) -> int:
        """How many of the members, (n,), hide the others in a sum."""
        clients = self.units.ravel()[members]
        return len(clients) if self.empty is None else int((~self.empty[clients]).sum())

    def opened_seeds(self, summed: int) -> int:
        """How many seeds of each client are opened after the upload: those of as many drops as did not happen."""
        dropped = self.units.size - summed
        return self.seeds - dropped if dropped <= self.seeds else 0


@dataclass(frozen=True)
class PreparedUnits:
    """The units whose preparation, before the upload, has succeeded.

    Attributes:
        kept_units: bool (units,): the units that go on; only they receive the model.
        secret: what :meth:`simfl.secagg.base.Protocol.recover` needs of it.
        down_bytes: what goes out with each model, a number or (units, size); of joint protocols.
        compute_s: what each client computes besides its training, a number or (units, size); of joint protocols.
        up_bytes: what goes up with each update, besides its masked coordinates, a number or (units, size); of joint
            protocols.
    """

    kept_units: NDArray[np.bool_]
    secret: Any = None
    down_bytes: Any = 0
    compute_s: Any = 0.0
    up_bytes: Any = 0


@dataclass(frozen=True)
class SessionResult:
    """The result of a session after the upload: there is a sum.

    Attributes:
        kept_units: bool (units,): the units that are in the sum.
        secret: what :meth:`simfl.secagg.base.Protocol.add` needs of the sessions, e.g. who responded to which phase.
        row: values of the protocol's columns in rounds.csv.
        compute_s: seconds the server then computes.
        tolerated: colluders, whoever they are, who with the server learn no more than the sum from this session; None =
            as many as the protocol says of a sum of so many (:meth:`simfl.secagg.base.Protocol.tolerance`).
        opened: the units kept, (units, size), where the sum of each is opened by itself, in the order in which the
            aggregate is given their means; None = one sum of all is.
    """

    kept_units: NDArray[np.bool_]
    secret: Any = None
    compute_s: float = 0.0
    row: JsonObject = field(default_factory=dict)
    tolerated: int | None = None
    opened: Units | None = None


@dataclass(frozen=True)
class SessionFailure:
    """The result of a session that failed: nothing is summed.

    Attributes:
        reason: what failed, in words; it is reported.
        row: values of the protocol's columns in rounds.csv.
        redraw: what the server had drawn is to blame, so that the next attempt at the aggregation draws anew.
        tolerated: colluders, whoever they are, who with the server learn nothing of the updates that have arrived; -1 =
            the server alone may learn something. Read of sessions after the upload.
    """

    reason: str
    row: JsonObject = field(default_factory=dict)
    redraw: bool = False
    tolerated: int = -1


R = TypeVar("R")
Session = Generator[PhaseRequest, NDArray[np.bool_], R]
"""A protocol session: yields phases, is sent who responded to each in time, bool (n,), and returns its result."""


# -- The updates that a protocol sums --------------------------------------------------------------------------


class ClientUpdates(NamedTuple):
    """Updates that are to be summed, by ascending client.

    Attributes:
        jobs: the jobs they come from, n.
        vectors: float32 (n, d), as they leave the clients; whole numbers, int64, where they are to be added up in
            the field as they are.
        mask: bool (n, d): the coordinates each speaks about; None = all.
        weights: float64 (n,): what each counts, not normalised.
        row: (n,): the row of the participation matrix.
        divisor: the normaliser of these weights, or of those that a protocol makes of them.
        combine: the rule's aggregate: (vectors, weights, normaliser, mask) -> float32 (d,); linear unless the
            protocol shows single updates.
        secrets: of each update, those its client shares besides the protocol's own, of 32 bytes each.
        moved: by how much one training sample moves their weighted sum at most, in L2; infinite = not known, or the
            protocol has no certificate.
    """

    jobs: tuple[Job, ...]
    vectors: NDArray[np.float32]
    mask: NDArray[np.bool_] | None
    weights: NDArray[np.float64]
    row: NDArray[Any]
    divisor: Callable[[NDArray[np.float64]], float]
    combine: Callable[..., NDArray[np.float32]]
    secrets: tuple[tuple[bytes, ...], ...] = ()
    moved: float = inf

    @property
    def clients(self) -> NDArray[np.int32]:
        """Whose updates they are, int32 (n,)."""
        return np.fromiter((job.client for job in self.jobs), dtype=np.int32, count=len(self.jobs))


def unit_of(units: Units, clients: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int64]:
    """The unit of each client, (n,), by its number among disjoint units, (units, size)."""
    members = units.ravel()
    order = np.argsort(members)
    return order[np.searchsorted(members, clients, sorter=order)] // units.shape[1]
