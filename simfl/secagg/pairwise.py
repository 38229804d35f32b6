"""SecAgg's sessions and their replay on any circle of neighbours; the protocols differ in neighbours and threshold."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView, summands
from simfl.core.types import Aggregate, Receipts
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.crypto.field import Elements
from simfl.secagg.crypto.keys import ID, KEY, SEED, TAG, secret
from simfl.secagg.crypto.shamir import SHARE
from simfl.secagg.masked_protocol import MaskedProtocol, whole_units
from simfl.secagg.neighbours import Circle, circle, degree_and_threshold
from simfl.secagg.pairwise_session import PairwiseClient, PairwisePlan, PairwiseServer, Secrets
from simfl.secagg.sessions import (
    ClientUpdates,
    Cohort,
    PhaseRequest,
    PreparedUnits,
    Session,
    SessionFailure,
    SessionResult,
)
from simfl.secagg.transcript import Rows, Transcript, rows_of

KEYS = 2 * KEY
SHARES = ID + 2 * ID + 2 * SHARE + TAG
"""To whom; and sealed: from, to, a share of each secret."""


class PairwiseRecord(NamedTuple):
    """Who answered which phase; all that a replay needs.

    Attributes:
        clients: at the positions, int32 (n,).
        limit: the largest total weight of a sum.
        advertised, masked, summed, answered: bool (n,): whose keys were published, whose masks are in the vectors,
            whose are summed, who answered the last phase.
        seeds, opened: further secrets of each client, and how many of them are opened.
    """

    plan: PairwisePlan
    clients: NDArray[np.int32]
    limit: float
    advertised: NDArray[np.bool_]
    masked: NDArray[np.bool_]
    summed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    seeds: int = 0
    opened: int = 0


class PairwiseResult(NamedTuple):
    """What the sessions come to: the sums, modulo q, and the opened further secrets of the clients in it, by client."""

    sums: Elements
    opened: dict[int, tuple[bytes, ...]]


@dataclass(frozen=True, kw_only=True)
class PairwiseMasks(MaskedProtocol):
    """Masks between pairs and one of each client's own, all of them opened by shares (Bonawitz et al. 2017)."""

    joint = True
    by_units = True
    opens_last = True
    opens_seeds = True
    phases = ("advertise", "share", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    @property
    def closes_failures(self) -> bool:
        """Late answers may come all the same."""
        return self.deadline_s is None

    @abstractmethod
    def sizes(self, n: int) -> tuple[int, int] | None:
        """Neighbours of each of n clients, and the shares that open a secret; None if nothing is safe."""

    def known(self, cohort: Cohort) -> dict[str, int]:
        n, size, sizes = cohort.units.size, cohort.units.shape[1], self.sizes(cohort.units.size)
        if sizes is None:
            return {}
        neighbours, threshold = sizes
        dropouts = max(0, min(neighbours - threshold, n - (self.min_sum or 2)) // size)
        dropouts = dropouts if cohort.receipts is None else 0  # all in a sum sign it
        return {"neighbours": neighbours, "threshold": threshold, "colluding": threshold - 1, "dropouts": dropouts}

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        clients, size, n = cohort.units.ravel(), cohort.units.shape[1], cohort.units.size
        sizes, no_room = self.sizes(n), self.no_room(cohort)
        if sizes is None or no_room:
            return SessionFailure(no_room or f"of {n} clients, no number of neighbours is safe")
        around = self._around(n, cohort.number, streams)
        plan = PairwisePlan(cohort.number, around, sizes[1], np.repeat(np.arange(n // size), size), self.min_sum or 2)
        signed = cohort.receipts or Receipts(0, 0, 0.0, 0.0)
        keys = KEYS + signed.signature_bytes
        responded = yield PhaseRequest("advertise", clients, 0, keys, signed.sign_s, deadline_s=self.deadline_s)
        advertised = whole_units(responded, size)
        if few := self.few(cohort, advertised):
            return SessionFailure(f"advertise: {few}")
        near, rates = around.counts(advertised)[advertised], self.rates
        shares = SHARES + SHARE * cohort.seeds
        compute_s = near * (signed.verify_s + rates.agreement_s + (2 + cohort.seeds) * rates.share_s)
        masked = np.zeros(n, dtype=bool)
        masked[advertised] = yield PhaseRequest(
            "share", clients[advertised], (ID + keys) * near, shares * near, compute_s, deadline_s=self.deadline_s
        )
        masked = whole_units(masked, size)
        if few := self.few(cohort, masked):
            return SessionFailure(f"share: {few}")
        near = around.counts(masked).reshape(-1, size)
        compute_s = near * rates.agreement_s + (near + 1) * (self.length(cohort.dimension) * rates.element_s)
        return PreparedUnits(masked.reshape(-1, size)[:, 0], (plan, advertised, masked), shares * near, compute_s)

    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        plan, advertised, masked = prepared[0]
        around, clients, arrived = plan.circle, cohort.units.ravel(), uploaded.ravel()
        summed = whole_units(arrived, cohort.units.shape[1])
        closed = plan.threshold - 1  # colluders to whom no secret is open that nobody was asked for
        if few := self.few(cohort, summed):
            return SessionFailure(f"upload: {few}", tolerated=closed)
        if not around.is_connected(summed):
            why = "those who are left are not connected, so that the sums of groups would show"
            return SessionFailure(f"upload: {why}", tolerated=closed)
        answered = np.zeros(len(clients), dtype=bool)
        others, seeds = around.counts(summed), cohort.opened_seeds(cohort.hiding(summed))
        up = (ID + SHARE) * around.counts(masked)[arrived] + seeds * (SHARE * others + SEED * summed)[arrived]
        answered[arrived] = yield PhaseRequest(
            "unmask", clients[arrived], -(-around.degree // 8), up, deadline_s=self.deadline_s
        )
        opened = summed | (masked & (others > 0))
        shares = around.counts(answered)
        if (shares[opened] < plan.threshold).any():
            least = int(shares[opened].min())
            why = f"{least} shares of a client's secret came, {plan.threshold} open it"
            return SessionFailure(f"unmask: {why}", tolerated=self.after_silence)
        record = PairwiseRecord(
            plan, clients, self.limit(cohort), advertised, masked, summed, answered, cohort.seeds, seeds
        )
        lost_masks = int(others[masked & ~summed].sum())
        rates, masks = self.rates, int(summed.sum()) + lost_masks
        compute_s = lost_masks * rates.agreement_s + int(opened.sum()) * plan.threshold * rates.share_s
        compute_s += masks * self.length(cohort.dimension) * rates.element_s
        compute_s += int((summed & ~answered).sum()) * seeds * plan.threshold * rates.share_s
        tolerated = min(closed, around.cut(summed) - 1)
        return SessionResult(summed.reshape(cohort.units.shape)[:, 0], record, compute_s, tolerated=tolerated)

    def _around(self, n: int, number: int, streams: Streams) -> Circle:
        return circle(n, (self.sizes(n) or (n,))[0], streams("secagg/circle", number))

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        """A row for each group that masks still connect, if its members' own masks are all open.

        A secret is open to whoever has ``threshold`` shares of it: colluders hold those of their neighbours' two, and
        of honest clients who answered there is one of each neighbour: of its own mask where it is summed, else of its
        key, which takes off all masks that it shares.
        """
        n, honest = len(transcript.clients), transcript.honest(coalition)
        if (sizes := self.sizes(n)) is None:
            return transcript.each(coalition)
        around, helping = self._around(n, transcript.round, streams), ~honest  # keys are enough to be sealed shares to
        helping_count, share_count = around.counts(helping), around.counts(helping | transcript.answered)
        masks = helping | (np.where(transcript.summed, share_count, helping_count) >= sizes[1])
        keys = helping | (np.where(transcript.summed, helping_count, share_count) >= sizes[1])
        hidden, bare = transcript.shared & ~keys, transcript.sent & masks
        groups = np.where(hidden, around.groups(hidden), n + np.arange(n))
        closed = np.isin(groups, groups[hidden & ~bare])
        return rows_of(np.where(bare & honest & ~closed, groups, -1))

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        if not self.computes(updates):
            clear = self.clear_aggregate(updates, result.secret.limit)
            count = result.secret.opened
            return clear._replace(opened=tuple(each[len(each) - count :] for each in updates.secrets) if count else ())
        quantised = self.quantise_updates(updates, updates.weights, result.secret.limit, streams)
        clients = updates.clients.tolist()
        vectors = dict(zip(clients, quantised.vectors, strict=True))
        further = dict(zip(clients, updates.secrets, strict=True)) if result.secret.seeds else {}
        replay = replay_sessions(result.secret, vectors, streams, further)
        total = self.mean(replay.sums, quantised, updates, updates.divisor(updates.weights))
        return total._replace(opened=tuple(replay.opened[client] for client in clients if replay.opened))


def replay_sessions(
    record: PairwiseRecord,
    vectors: Mapping[int, NDArray[np.int64]],
    streams: Streams,
    further: Mapping[int, Sequence[bytes]] = MappingProxyType({}),
) -> PairwiseResult:
    """What the sessions of server and clients come to.

    Args:
        record: who answered which phase.
        vectors: of the clients in the sum, by client, in whole numbers.
        streams: the run's.
        further: their further secrets; others, of which none is opened, share any.
    """
    plan, names = record.plan, record.clients.tolist()
    members = {}
    for u in _those(record.advertised):
        closed = [secret(streams, "secagg/further", plan.number, names[u], i) for i in range(record.seeds)]
        members[u] = PairwiseClient(plan, u, Secrets.of(streams, plan.number, names[u]), further.get(names[u], closed))
    server = PairwiseServer(plan)
    published = server.publish({u: client.advertise() for u, client in members.items()})
    forwarded = server.forward({u: members[u].share(published[u]) for u in _those(record.masked)})
    for u in _those(record.masked):
        members[u].receive(forwarded[u])
    masked = {u: members[u].mask(vectors[names[u]]) for u in _those(record.summed)}  # of others nobody needs it
    summed_neighbours = {
        u: [v for v in members[u].received_shares if record.summed[v]] for u in _those(record.answered)
    }
    responses = {u: members[u].unmask(summed, record.opened) for u, summed in summed_neighbours.items()}
    sums, opened = server.unmask(masked, _those(record.masked), responses), record.opened
    revealed = {u: members[u].reveal() for u in responses if u in masked and opened}
    further_secrets = server.further(masked, opened, revealed, responses) if opened else {}
    return PairwiseResult(sums, {names[u]: secrets for u, secrets in further_secrets.items()})


def _those(members: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(members).tolist()


@PROTOCOLS("secagg")
@dataclass(frozen=True, kw_only=True)
class SecAgg(PairwiseMasks):
    """Every pair of clients has a mask, every client one of its own; shares of the others' secrets take them off.

    The sum stays hidden from a server with up to ``threshold`` of the others; it needs more than those to answer.
    """

    threshold: Annotated[
        float, Field(ge=0, lt=1, description="share of the other clients who, with the server, learn nothing")
    ] = 0.5

    @property
    def opens_confirmed(self) -> bool:
        """Two sets of shares of one client have a holder in common, docs/explanation/proofs/verifiable.md."""
        return self.threshold >= 0.5

    def sizes(self, n: int) -> tuple[int, int] | None:
        return (n - 1, int(self.threshold * (n - 1)) + 1) if n > 1 else None


@PROTOCOLS("secagg_plus")
@dataclass(frozen=True, kw_only=True)
class SecAggPlus(PairwiseMasks):
    """SecAgg in which each client has a few neighbours on a random circle: as many as the rates below ask for."""

    corrupted: Annotated[float, Field(ge=0, lt=1, description="share of the clients who collude with the server")] = 0.1
    dropped: Annotated[
        float, Field(ge=0, lt=1, description="share of the clients whose updates are lost; those of broken units too")
    ] = 0.1
    security_bits: Annotated[float, Field(ge=1, le=256, description="a breach is as likely as 2 to minus this")] = 40.0
    correctness_bits: Annotated[float, Field(ge=1, le=256, description="a failure within those rates, likewise")] = 30.0
    neighbours: Annotated[
        int | None, Field(ge=2, multiple_of=2, description="of each client, with threshold; null = as few as are safe")
    ] = None
    threshold: Annotated[int | None, Field(ge=1, description="shares that open a secret, with neighbours")] = None

    def sizes(self, n: int) -> tuple[int, int] | None:
        if self.neighbours is not None and self.threshold is not None:
            return (self.neighbours, self.threshold) if self.neighbours < n else None
        return degree_and_threshold(n, self.corrupted, self.dropped, self.security_bits, self.correctness_bits)

    def known(self, cohort: Cohort) -> dict[str, int]:
        known, n = super().known(cohort), cohort.units.size
        if known and self.neighbours is None:
            rates = {"colluding_at_random": self.corrupted, "dropouts_at_random": self.dropped}
            known |= {name: floor(round(rate * n, 9)) for name, rate in rates.items()}
        return known

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n = super().check(setting), summands(setting)
        if (self.neighbours is None) != (self.threshold is None):
            problems.append(("neighbours", "and threshold are given together, or neither is"))
        elif self.neighbours is not None and self.threshold is not None and self.threshold > self.neighbours:
            problems.append(("threshold", f"is {self.threshold}; of {self.neighbours} neighbours no more can answer"))
        elif n is not None and self.neighbours is not None and self.neighbours >= n:
            most = (n - 1) // 2 * 2
            valid = f"the largest even number is {most}" if most else "use secagg"
            problems.append(
                ("neighbours", f"is {self.neighbours}, but each of {n} clients has {n - 1} others; {valid}")
            )
        elif n is not None and self.sizes(n) is None:
            problems.append((
                "name", f"of {n} clients, no number of neighbours below {n - 1} is safe at these rates; use secagg"
            ))  # fmt: skip
        return problems
