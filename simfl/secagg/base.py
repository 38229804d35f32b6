"""What a secure-aggregation protocol is: whom it asks for what, and the sum that comes of it; no clock, no messages.

A protocol serves its cohort in *sessions* (:mod:`simfl.secagg.sessions`): generators that yield a request a phase and
are sent which clients responded in time. The world decides who responds and when. A session is pure: what it does
depends on its arguments and the responses only, so that the responses so far are its checkpoint. The mathematics of
the sum happens later, in one batch, in :meth:`Protocol.add`, and only for sums that count.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from simfl.core.certificate_words import ONLY_SUMS
from simfl.core.columns import Column
from simfl.core.coverage import looks_ahead
from simfl.core.payload import SUMMABLE, Kind
from simfl.core.registration.protocol import Plugin, is_foreign
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Aggregate
from simfl.secagg.sessions import ClientUpdates, Cohort, PreparedUnits, Session, SessionFailure, SessionResult
from simfl.secagg.transcript import Rows, Transcript


class Protocol(Plugin, Interface):
    """A frozen dataclass whose fields are its YAML keys.

    SecAgg with four clients, of whom client 3 fails before its upload. Each client advertises two keys of 32 bytes. It
    is sent those of the three others and sends each of them shares of its secrets, of 100 bytes. Two shares open a
    secret (more than half of the others), so that the masks of client 3 can be taken off the sum of 1, 3 and 2:

    >>> from simfl.core.types import Job, JobId
    >>> from simfl.secagg.pairwise import SecAgg
    >>> def run(session, *responses):  # prints what each phase requests of a client, in bytes down and up
    ...     try:
    ...         request = next(session)
    ...         for responded in responses:
    ...             bytes_each = int(np.max(request.down_bytes)), int(np.max(request.up_bytes))
    ...             print(request.kind, request.to.tolist(), *bytes_each)
    ...             request = session.send(np.array(responded))
    ...     except StopIteration as end:
    ...         return end.value
    >>> protocol, streams = SecAgg(weight_channel=False), Streams(0)
    >>> cohort = Cohort(number=0, units=np.array([[0], [1], [2], [3]], dtype=np.int32), dimension=1, clients=4)
    >>> prepared = run(protocol.prepare(cohort, streams), [True] * 4, [True] * 4)
    advertise [0, 1, 2, 3] 0 64
    share [0, 1, 2, 3] 204 300
    >>> uploaded = np.array([[True], [True], [True], [False]])
    >>> result = run(protocol.recover(cohort, uploaded, [prepared.secret], streams), [True] * 3)
    unmask [0, 1, 2] 1 120
    >>> result.kept_units.tolist()
    [True, True, True, False]
    >>> jobs = tuple(Job(JobId.of(0, client), client, 0, 0.0) for client in range(3))
    >>> vectors, ones = np.array([[1], [3], [2]], dtype=np.float32), np.ones(3)
    >>> updates = ClientUpdates(jobs, vectors, None, ones, ones, divisor=np.sum, combine=None)
    >>> protocol.add(result, updates, streams).vector.tolist()
    [2.0]

    Attributes:
        joint: it needs one cohort from the first phase to the last. Such a protocol is refused where clients come and
            go one by one (buffered servers); any other is prepared unit by unit and recovers a buffer of any jobs.
        shows_updates: the server sees each update, not only their sum; so of a protocol that does not deny it.
        assumes: what its certificates take for granted of it, in words; empty = it makes that so itself.
        covers: the kinds of parts (:data:`simfl.core.payload.Kind`) of what leaves a client that it shows as sums only.
        opens_last: until a phase after the upload opens their sum, updates are closed to the server and as many clients
            as it tolerates.
        epsilon_delta: the δ of its own epsilon, 0 = it is pure; None = it does not say.
        by_units: a session needs and tells nobody but the clients of its sum, and keeps one unit or fails, so that each
            unit may have its own.
        sums_units: it opens the sum of each unit by itself (:attr:`simfl.secagg.sessions.SessionResult.opened`).
        sums_whoever_comes: it never fails as a whole: whichever updates arrive, however few, are summed.
        phases: the kinds of its asks, in order; without any, nothing is prepared.
        deadline_s: seconds after which a phase goes on without those who have not answered; None = it waits.
        columns: what it adds to rounds.csv.
        field: the modulus in which it adds up; None = it adds real numbers.
        clip: magnitude at which it clips each coordinate of what clients send, their noise included.
        opens_seeds: it lets clients share further secrets, and opens those that are no longer needed: its totals hold
            them.
    """

    field: int | None = None
    clip: float = inf
    opens_seeds: bool = False
    joint: bool = False
    phases: tuple[str, ...] = ()
    shows_updates: bool = True
    opens_last: bool = False
    deadline_s: float | None = None
    assumes: ClassVar[str] = ""
    covers: ClassVar[frozenset[Kind]] = frozenset()
    epsilon_delta: float | None = None
    by_units: bool = False
    sums_units: bool = False
    sums_whoever_comes: bool = False
    columns: ClassVar[tuple[Column, ...]] = ()

    @property
    def certificate(self) -> str:
        """Its column that holds an epsilon; empty = none does."""
        return next((column.name for column in self.columns if column.name.startswith("epsilon")), "")

    @property
    def factor(self) -> int:
        """By which it multiplies whole numbers at most before it adds them."""
        return 1

    def largest_row(self, row: float) -> float:
        """The most that it makes of an entry of the participation matrix, such as a staleness weight, by rounding."""
        return row

    def upload_bytes(self, update_bytes: object, dimension: int) -> Any:
        """Size on the wire of updates of ``update_bytes``, a number or (n,)."""
        return update_bytes

    def counting(self) -> Mapping[str, "Protocol"]:
        """For each kind of operation this protocol with every such operation taking a second, and others no time."""
        return {}

    @property
    def closes_failures(self) -> bool:
        """Whether the server alone learns nothing of a session without a sum, whatever is missing."""
        return False

    @property
    def opens_confirmed(self) -> bool:
        """Whether a server that lies, alone, can open only sums that all clients in them have confirmed, where keys and
        confirmations are not forged.
        """
        return False

    @property
    def moves_sums(self) -> Literal["", "coarsely", "around"]:
        """What else than hiding it does to a sum: rounds it ``coarsely``, more than its field makes it, or ``around``:
        one update may make it wrap around the field, so of a protocol that does not deny it, of a stranger's also
        where it names no field.
        """
        return "" if self.field is None and not is_foreign(self) else "around"

    def known(self, cohort: Cohort) -> dict[str, int]:
        """What theory knows of sums over such a cohort; of these what applies.

        ``neighbours`` and ``threshold`` of shared secrets, ``survivors`` whose answers are needed; ``colluding``
        clients who with the server learn nothing, whoever they are; ``dropouts`` in any phases with which there still
        is a sum, whoever they are; ``colluding_at_random`` and ``dropouts_at_random`` with the chances asked for.
        """
        return {}

    def tolerance(self, members: int, clients: int) -> int | None:
        """Of a sum of so many of all clients those who with the server learn no single update, whoever they are.

        None where that is not known: then nobody is tolerated, and where it shows updates not even the server alone.
        """
        units = np.arange(members, dtype=np.int32).reshape(-1, 1)
        return self.known(Cohort(0, units, 1, clients)).get("colluding")

    def overflow(self, setting: ScenarioView, most: int, samples: int) -> list[tuple[str, str]]:
        """Keys, and why by them no sum of so many updates can be, if a client may hold so many samples."""
        return []

    def cautions(self, setting: ScenarioView) -> list[str]:
        """What works, but is perhaps not what was meant; ``simfl validate`` says it."""
        return []

    def setup(self, cohort: Cohort, streams: Streams) -> Session[Any]:
        """What all clients do once, before the first round; of joint protocols. What it returns is not looked at."""
        return None
        yield

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        """Everything before the models go out; returns :class:`PreparedUnits` or :class:`SessionFailure`."""
        return PreparedUnits(np.ones(len(cohort.units), dtype=bool))
        yield

    @abstractmethod
    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        """Everything after the upload; returns :class:`SessionResult` or :class:`SessionFailure`.

        Args:
            cohort: whom it serves; a buffered server's are those whose updates its buffer holds.
            uploaded: bool (units, size): whose update has arrived.
            prepared: the secret of each preparation: one for the whole cohort, or one for each unit where a buffered
                server prepared them one by one.
            streams: the run's streams.
        """

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        """The combinations of weighted updates that the server and a coalition know of a session, without the
        coalition's own updates; all of them: every update by itself, where a protocol proves nothing better.

        Args:
            transcript: whom the server heard.
            coalition: any clients, also others than these.
            streams: the run's, from which public draws are repeated.
        """
        return transcript.each(coalition)

    def known_to(
        self, result: SessionResult, updates: ClientUpdates, coalition: NDArray[np.int32], streams: Streams
    ) -> Mapping[str, NDArray[Any]]:
        """What clients of a coalition can take off the sum besides their own updates, (d,), by strategy.

        It may use only what the members have drawn and received; the attack is then the observer's.
        """
        return {}

    @abstractmethod
    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        """The sum, or weighted mean, of the updates of the units kept; it replays the clients' sessions."""


PROTOCOLS = Registry[Protocol](
    "secagg",
    promises=(
        "shows_updates",
        "by_units",
        "sums_units",
        "covers",
        "known",
        "tolerance",
        "view",
        "opens_last",
        "opens_confirmed",
        "closes_failures",
        "moves_sums",
        "largest_row",
    ),  # fmt: skip
    protocol=Protocol,
    modules=modules_of(
        "simfl.secagg",
        "basecagg",
        "flamingo",
        "lightsecagg",
        "opa",
        "unit_sums",
        base="ideal plain",
        pairwise="secagg secagg_plus",
    ),
)


@PROTOCOLS("plain")
@dataclass(frozen=True)
class Plain(Protocol):
    """The server sees each update and adds them up."""

    shows_updates = True
    sums_whoever_comes = True

    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        return SessionResult(np.asarray(uploaded.all(axis=1)))
        yield

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        normaliser = updates.divisor(updates.weights)
        vector = updates.combine(updates.vectors, updates.weights, normaliser, updates.mask)
        return Aggregate(vector, updates.clients, updates.row)


@PROTOCOLS("ideal")
@dataclass(frozen=True)
class Ideal(Plain):
    """A trusted party adds the updates up, so that only sums are seen; it costs no time, no bytes and no rounding.

    What sums tell is what multi-round privacy is about where secure aggregation is left aside (So et al., arXiv
    2106.03328, section 2). That only sums are seen is taken for granted; a real protocol makes it so, and costs time
    and bytes. Any clients who collude with the server learn the sum less their own updates, and nothing else.
    """

    shows_updates = False
    opens_last = opens_confirmed = by_units = True
    assumes = ONLY_SUMS
    covers = SUMMABLE
    closes_failures = True

    def tolerance(self, members: int, clients: int) -> int | None:
        return clients

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        return transcript.sum(coalition) if transcript.ended else transcript.none()

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if not looks_ahead(setting):
            return []
        why = "adds what clients have sent before the model exists that it is to be compared with"
        return [("name", f"{why}; add the clients' changes (training.mix: deltas), or use secagg: plain")]
