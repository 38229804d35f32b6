"""What an aggregation protocol is: whom it asks for what, and the sum that comes of it; no clock, no messages.

A protocol speaks to its cohort in *talks*: generators that yield an :class:`Ask` a phase and are sent who answered.
The world decides who answers and when. A talk is pure: what it does depends on its arguments and the answers only,
so that the answers so far are its checkpoint. The mathematics of the sum happens later, in one batch, in
:meth:`Protocol.add`, and only for sums that count.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.payload import SUMMABLE
from simfl.registry import Registry
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import Job, Total, Units

__all__ = ["PROTOCOLS", "Ask", "Cohort", "Contributions", "Failed", "Prepared", "Protocol", "Summed", "Talk"]


class Ask(NamedTuple):
    """One phase of a conversation with a whole cohort: sizes and times, no tensors.

    Attributes:
        kind: names the phase in traces, timelines and failure models, e.g. ``"share"``.
        to: who is asked, int32 (n,), distinct.
        down_bytes, up_bytes: sizes of the request and of the answer, a number or (n,).
        compute_s: seconds each needs for its answer, a number or (n,).
        quorum: answers after which the server goes on; None = all that can come.
        deadline_s: seconds after which it goes on with what it has; None = it waits.
    """

    kind: str
    to: NDArray[np.int32]
    down_bytes: Any = 0
    up_bytes: Any = 0
    compute_s: Any = 0.0
    quorum: int | None = None
    deadline_s: float | None = None


class Cohort(NamedTuple):
    """Whom a protocol serves.

    Attributes:
        number: of the aggregation; with "secagg" the address of the protocol's random streams.
        units: int32 (units, size): clients that are summed together or not at all.
        dimension: coordinates of an update, d.
        clients: of the scenario; some protocols have all of them help.
        heaviest: the largest weight that any client's update can carry; public, so that sums can be sized for it.
        empty: bool (clients,): who holds no samples, whose update is 0 and hides nobody; None = nobody is known to.
        seeds: further secrets of each client, of which those after the first D are opened where D clients drop out.
    """

    number: int
    units: Units
    dimension: int
    clients: int = 0
    heaviest: float = 1.0
    empty: NDArray[np.bool_] | None = None
    seeds: int = 0

    def hiding(self, members: NDArray[np.bool_]) -> int:
        """How many of the members, (n,), hide the others in a sum."""
        found = self.units.ravel()[members]
        return len(found) if self.empty is None else int((~self.empty[found]).sum())

    def opened(self, summed: int) -> int:
        """How many seeds of each client are opened after the upload: those of as many drops as did not happen."""
        dropped = self.units.size - summed
        return self.seeds - dropped if dropped <= self.seeds else 0


@dataclass(frozen=True)
class Prepared:
    """The good end of what comes before the upload.

    Attributes:
        kept: bool (units,): the units that go on; only they receive the model.
        secret: what :meth:`Protocol.recover` needs of it.
        down_bytes: what goes out with each model, a number or (units, size); of joint protocols.
        compute_s: what each client computes besides its training, a number or (units, size); of joint protocols.
    """

    kept: NDArray[np.bool_]
    secret: Any = None
    down_bytes: Any = 0
    compute_s: Any = 0.0


@dataclass(frozen=True)
class Summed:
    """A protocol's good end.

    Attributes:
        kept: bool (units,): the units that are in the sum.
        secret: what :meth:`Protocol.add` needs of the talks, e.g. who answered which phase.
        row: values of the protocol's columns in rounds.csv.
        compute_s: seconds the server then computes.
    """

    kept: NDArray[np.bool_]
    secret: Any = None
    compute_s: float = 0.0
    row: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """A protocol's bad end: nothing is summed.

    Attributes:
        reason: what failed, in words; it is reported.
        row: values of the protocol's columns in rounds.csv.
    """

    reason: str
    row: dict[str, Any] = field(default_factory=dict)


Talk = Generator[Ask, NDArray[np.bool_], Any]
"""Yields phases, is sent who answered each in time, bool (n,), and returns its end."""


class Contributions(NamedTuple):
    """Updates that are to be summed, by ascending client.

    Attributes:
        jobs: the jobs they come from, n.
        vectors: float32 (n, d), as they leave the clients; whole numbers, int64, where they are to be added up in
            the field as they are.
        holds: bool (n, d): the coordinates each speaks about; None = all.
        weights: float64 (n,): what each counts, not normalised.
        row: (n,): the row of the participation matrix.
        divisor: the normaliser of these weights, or of those that a protocol makes of them.
        combine: the rule's aggregate: (vectors, weights, normaliser, holds) -> float32 (d,); linear unless the
            protocol shows single updates.
        secrets: of each update, those its client shares besides the protocol's own, of 32 bytes each.
    """

    jobs: tuple[Job, ...]
    vectors: NDArray[np.float32]
    holds: NDArray[np.bool_] | None
    weights: NDArray[np.float64]
    row: NDArray[Any]
    divisor: Callable[[NDArray[np.float64]], float]
    combine: Callable[..., NDArray[np.float32]]
    secrets: tuple[tuple[bytes, ...], ...] = ()

    def opened(self, count: int) -> tuple[tuple[bytes, ...], ...]:
        """The last ``count`` secrets of each update."""
        return tuple(each[len(each) - count :] for each in self.secrets) if count else ()

    @property
    def clients(self) -> NDArray[np.int32]:
        """Whose updates they are, int32 (n,)."""
        return np.fromiter((job.client for job in self.jobs), dtype=np.int32, count=len(self.jobs))


class Protocol(Interface):
    """A frozen dataclass whose fields are its YAML keys.

    Attributes:
        joint: it needs one cohort from the first phase to the last. Such a protocol is refused where clients come and
            go one by one (buffered servers); any other is prepared unit by unit and recovers a buffer of any jobs.
        shows_updates: the server sees each update, not only their sum.
        covers: the kinds of parts (:data:`simfl.payload.Kind`) of what leaves a client that it shows as sums only.
        sums_whoever_comes: it never fails as a whole: whichever updates arrive, however few, are summed.
        phases: the kinds of its asks, in order; without any, nothing is prepared.
        certificate: its column that holds an epsilon; empty = none does.
        columns: what it adds to rounds.csv.
        field: the modulus in which it adds up; None = it adds real numbers.
        opens_seeds: it lets clients share further secrets, and opens those that are no longer needed: its totals hold
            them.
    """

    field: int | None = None
    opens_seeds: bool = False
    joint: bool = False
    phases: tuple[str, ...] = ()
    shows_updates: bool = False
    covers: ClassVar[frozenset[str]] = SUMMABLE
    certificate: ClassVar[str] = ""
    sums_whoever_comes: bool = False
    columns: ClassVar[tuple[Column, ...]] = ()

    @property
    def factor(self) -> int:
        """By which it multiplies whole numbers at most before it adds them."""
        return 1

    def upload_bytes(self, update_bytes: Any, dimension: int) -> Any:
        """Size on the wire of updates of ``update_bytes``, a number or (n,)."""
        return update_bytes

    def counting(self) -> Mapping[str, "Protocol"]:
        """For each kind of operation this protocol with every such operation taking a second, and others no time."""
        return {}

    def known(self, cohort: Cohort) -> dict[str, int]:
        """What theory knows of sums over such a cohort; of these what applies.

        ``neighbours`` and ``threshold`` of shared secrets, ``survivors`` whose answers are needed; ``colluding``
        clients who with the server learn nothing, whoever they are; ``dropouts`` in any phases with which there still
        is a sum, whoever they are; ``colluding_at_random`` and ``dropouts_at_random`` with the chances asked for.
        """
        return {}

    def cautions(self, setting: Setting) -> list[str]:
        """What works, but is perhaps not what was meant; ``simfl validate`` says it."""
        return []

    def setup(self, cohort: Cohort, streams: Streams) -> Talk:
        """What all clients do once, before the first round; of joint protocols. What it returns is not looked at."""
        return None
        yield

    def prepare(self, cohort: Cohort, streams: Streams) -> Talk:
        """Everything before the models go out; returns :class:`Prepared` or :class:`Failed`."""
        return Prepared(np.ones(len(cohort.units), dtype=bool))
        yield

    @abstractmethod
    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams) -> Talk:
        """Everything after the upload; returns :class:`Summed` or :class:`Failed`.

        Args:
            cohort: whom it serves; a buffered server's are those whose updates its buffer holds.
            uploaded: bool (units, size): whose update has arrived.
            prepared: the secret of each preparation: one for the whole cohort, or one for each unit where a buffered
                server prepared them one by one.
            streams: the run's streams.
        """
        ...

    def known_to(
        self, done: Summed, given: Contributions, coalition: NDArray[np.int32], streams: Streams
    ) -> Mapping[str, NDArray[Any]]:
        """What clients of a coalition can take off the sum besides their own updates, (d,), by strategy.

        It may use only what the members have drawn and received; the attack is then the observer's.
        """
        return {}

    @abstractmethod
    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        """The sum, or weighted mean, of the updates of the units kept; it replays the clients' sessions."""
        ...


PROTOCOLS = Registry("secagg", protocol=Protocol)
