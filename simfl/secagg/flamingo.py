"""Secure aggregation over many rounds with decryptors (Ma, Woods, Angel, Polychroniadou, Rabin, "Flamingo", IEEE S&P
2023, arXiv 2308.09883).

**Setup**, once: keys are published; public randomness draws L decryptors of all clients, who generate a key together,
of which each has a share, t = floor(L / 3) + 1 of them enough. After ``term`` rounds the next L are drawn, to whom
they hand the key over.

**A round** has three steps, and only the first is of all clients.

1. Report: with its masked vector a client sends a share of its own mask's seed to each decryptor, sealed, and the seed
   of each mask with a neighbour, encrypted to the decryptors' key. Public randomness gives each round's graph: every
   two clients are neighbours with a chance, the least with which those who are neither corrupted nor missing are
   connected but for 2^-security_bits. Of G(m, c) that is at most the sum over k <= m / 2 of binom(m, k)
   (1 - c)^(k (m - k)).
2. Cross-check: decryptors sign the set of clients whose reports have come; floor(2 L / 3) + 1 signatures are needed, of
   which two sets cannot both have as many unless more than a third of the decryptors sign both.
3. Reconstruction: decryptors open their shares of the own masks of those clients, and the seeds between one of them and
   one that is missing.

Written from excerpts of the paper and its authors' code, without its tables. With too few decryptors the round is
skipped. Fewer than t decryptors learn no mask; t of them with the server
learn every update. A handover by fewer than t old decryptors fails its round, too; they repeat it before the next,
which costs nothing here, as little as a new decryptor's fetching of pieces that it has missed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil, floor, log
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Aggregate, Bools, Integers
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.crypto.field import Elements
from simfl.secagg.crypto.keys import ID, KEY, SEED, TAG, public_key, secret
from simfl.secagg.crypto.shamir import SHARE
from simfl.secagg.flamingo_session import Decryptor, FlamingoClient, FlamingoPlan, groups, key_shares, open_sum
from simfl.secagg.masked_protocol import CommitteeProtocol, whole_units
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

POINT, SCALAR, SIGNATURE = 33, 32, 64
"""Bytes of a point of P-256, compressed, of a share of the key, and of a signature (FIPS 186-4)."""


class FlamingoRecord(NamedTuple):
    """Who did what; all that a replay needs.

    Attributes:
        clients: at the positions, int32 (n,).
        size: clients of a unit.
        limit: the largest total weight of a sum.
        summed: bool (n,): whose updates are summed.
        committee: the decryptors, by place.
        signed, answered: places of those who have signed the set, and of those whose answers open the sum.
    """

    number: int
    clients: NDArray[np.int32]
    size: int
    limit: float
    summed: Bools
    committee: NDArray[np.int32]
    signed: list[int]
    answered: list[int]


@lru_cache(maxsize=256)
def edge_chance(n: int, missing: float, bits: float) -> float:
    """The least chance, in thousandths, with which a random graph without this share of n clients is connected but for
    2^-bits; 1 where none is enough.
    """
    from scipy.special import gammaln

    m = n - floor(round(missing * n, 9))
    k = np.arange(1, m // 2 + 1)
    log_sets = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    for chance in np.arange(1, 1000) / 1000:
        if len(k) and np.logaddexp.reduce(log_sets + k * (m - k) * log(1 - chance)) <= -bits * log(2):
            return float(chance)
    return 1.0


@PROTOCOLS("flamingo")
@dataclass(frozen=True, kw_only=True)
class Flamingo(CommitteeProtocol):
    """Keys once, masks of every round by themselves; a few decryptors take them off, and are replaced now and then."""

    term: Annotated[int, Field(ge=1, description="rounds after which another committee is drawn")] = 10
    corrupted: Annotated[float, Field(ge=0, lt=1, description="share of the clients who collude with the server")] = 0.1
    dropped: Annotated[float, Field(ge=0, lt=1, description="share of the clients whose updates are lost")] = 0.1
    security_bits: Annotated[
        float, Field(ge=1, le=256, description="the others are not connected with a chance of 2 to minus this")
    ] = 40.0

    phases = ("handover", "crosscheck", "unmask")
    columns = (*MASKED_COLUMNS, *map(failing, phases))

    @property
    def closes_failures(self) -> bool:
        """Late answers may come all the same."""
        return self.deadline_s is None

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(setting)
        if self.corrupted + self.dropped >= 1:
            problems.append(("dropped", "and corrupted leave nobody; together they must be below 1"))
        return problems

    def sizes(self, clients: int) -> tuple[int, int, int]:
        """Decryptors of so many clients, those who open a sum, and the signatures that are needed."""
        members = self.members(clients)
        return members, members // 3 + 1, 2 * members // 3 + 1

    def chance(self, n: int) -> float:
        """With which two of n clients are neighbours."""
        return edge_chance(n, self.corrupted + self.dropped, self.security_bits)

    def known(self, cohort: Cohort) -> dict[str, int]:
        n, (members, threshold, signatures) = cohort.units.size, self.sizes(cohort.clients)
        dropouts, chance = n - (self.min_sum or 2), self.chance(n)
        if chance < 1:
            dropouts = min(dropouts, floor(round(self.dropped * n, 9)))
        dropouts = max(0, min(members - signatures, dropouts // cohort.units.shape[1]))
        return {"neighbours": ceil(chance * (n - 1)), "threshold": threshold, "survivors": signatures,
                "colluding": threshold - 1, "dropouts": dropouts}  # fmt: skip

    def graph(self, n: int, number: int, streams: Streams) -> Bools:
        """Who is whose neighbour in a round, bool (n, n)."""
        pairs = np.triu(streams("flamingo/graph", number).random((n, n)) < self.chance(n), 1)
        return pairs | pairs.T

    def decryptors(self, number: int, clients: int, streams: Streams) -> NDArray[np.int32]:
        """The decryptors of a round, by place."""
        return self.committee_of("flamingo", number // self.term, clients, streams)

    def setup(self, cohort: Cohort, streams: Streams) -> Session[Any]:
        """Everybody's keys of agreements and signatures; the decryptors' key; and who has which key."""
        everybody, keys = cohort.units.ravel(), 2 * KEY
        yield PhaseRequest("setup", everybody, 0, keys)
        yield self._dealing("setup", self.decryptors(0, cohort.clients, streams), cohort.clients)
        yield PhaseRequest("setup", everybody, (keys + ID) * cohort.clients + POINT, 0)

    def _dealing(self, kind: str, to: NDArray[np.int32], clients: int) -> PhaseRequest:
        """Each sends the others sealed shares, and commitments to its polynomial."""
        members, threshold, _ = self.sizes(clients)
        up, seconds = members * (ID + SCALAR + TAG) + threshold * POINT, (members + threshold) * self.rates.agreement_s
        seconds += members * self.rates.share_s
        return PhaseRequest(kind, to, 0, up, seconds, deadline_s=self.deadline_s)

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        n, (members, threshold, _) = cohort.units.size, self.sizes(cohort.clients)
        no_room, few = self.no_room(cohort), self.few(cohort, np.ones(n, dtype=bool))
        if no_room or few:
            return SessionFailure(no_room or f"upload: {few}")
        if cohort.number and cohort.number % self.term == 0:
            before, after = (self.decryptors(t, cohort.clients, streams) for t in (cohort.number - 1, cohort.number))
            responded = yield self._dealing("handover", before, cohort.clients)
            if (dealers := int(responded.sum())) < threshold:
                return SessionFailure(f"handover: {dealers} decryptors hand over, {threshold} are needed")
            down, seconds = dealers * (ID + SCALAR + TAG + threshold * POINT), dealers * self.rates.agreement_s
            yield PhaseRequest("handover", after, down, 0, seconds, deadline_s=self.deadline_s)
        near = self.graph(n, cohort.number, streams).sum(axis=1).reshape(cohort.units.shape)
        up, rates = members * (SHARE + TAG) + near * (POINT + SEED), self.rates
        compute_s = (3 * near + members) * rates.agreement_s + members * rates.share_s
        compute_s += (near + 1) * (self.length(cohort.dimension) * rates.element_s)
        return PreparedUnits(np.ones(len(cohort.units), dtype=bool), None, 0, compute_s, up)

    def recover(
        self, cohort: Cohort, uploaded: Bools, prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        size, n = cohort.units.shape[1], cohort.units.size
        _, threshold, signatures = self.sizes(cohort.clients)
        summed, rates, closed = whole_units(uploaded.ravel(), size), self.rates, threshold - 1
        who, adjacent = self.decryptors(cohort.number, cohort.clients, streams), self.graph(n, cohort.number, streams)
        if few := self.few(cohort, summed):
            return SessionFailure(f"upload: {few}", tolerated=closed)
        if groups(adjacent, summed).max() > 0:
            why = "those who are left are not connected, so that the sums of groups would show"
            return SessionFailure(f"upload: {why}", tolerated=closed)
        signed = yield PhaseRequest("crosscheck", who, -(-n // 8), SIGNATURE, rates.agreement_s, None, self.deadline_s)
        if signed.sum() < signatures:
            yield PhaseRequest("unmask", who[:0])  # nobody is asked to open anything
            why = f"crosscheck: {int(signed.sum())} decryptors have signed, {signatures} are needed"
            return SessionFailure(why, tolerated=closed)
        online, edges = int(summed.sum()), int(adjacent[np.ix_(summed, ~summed)].sum())
        down = int(signed.sum()) * (SIGNATURE + ID) + online * (SHARE + TAG) + edges * POINT
        up, compute_s = online * SHARE + edges * POINT, (int(signed.sum()) + online + edges) * rates.agreement_s
        came = yield PhaseRequest("unmask", who[signed], down, up, compute_s, deadline_s=self.deadline_s)
        if came.sum() < threshold:
            why = f"unmask: {int(came.sum())} decryptors have answered, {threshold} open the sum"
            return SessionFailure(why, tolerated=-1 if self.deadline_s is not None else closed - int(came.sum()))
        places = np.flatnonzero(signed)
        record = FlamingoRecord(
            cohort.number, cohort.units.ravel(), size, self.limit(cohort), summed, who,
            places.tolist(), places[came][:threshold].tolist(),
        )  # fmt: skip
        compute_s = edges * threshold * rates.agreement_s + online * threshold * rates.share_s
        compute_s += (online + edges) * self.length(cohort.dimension) * rates.element_s
        tolerated = min(closed, separators(adjacent[np.ix_(summed, summed)]) - 1)
        return SessionResult(summed.reshape(-1, size)[:, 0], record, compute_s, tolerated=tolerated)

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        """A row for each group of the sum that masks still connect, once t decryptors have answered or collude with
        those who have; if t collude, every secret is open.
        """
        _, threshold, _ = self.sizes(transcript.population)
        colluding = int(np.isin(coalition, self.decryptors(transcript.round, transcript.population, streams)).sum())
        if colluding >= threshold:
            return transcript.each(coalition)
        honest, around = transcript.honest(coalition), self.graph(len(transcript.clients), transcript.round, streams)
        others = transcript.response_count - int((transcript.answered & ~honest).sum())
        if not transcript.ended and colluding + others < threshold:
            return transcript.none()
        return rows_of(groups(around, transcript.summed & honest))

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        return self.sum_of(updates, result.secret.limit, streams, partial(self.replay, result.secret, streams=streams))

    def replay(self, record: FlamingoRecord, vectors: Mapping[int, Integers], streams: Streams) -> Elements:
        """The sum that the sessions come to, of the summed clients' vectors in whole numbers; only what opens it is
        computed: nobody needs others' shares and ciphertexts.
        """
        n, members, least = len(record.clients), record.committee.tolist(), self.min_sum or 2
        theirs = [public_key(secret(streams, "flamingo/key", client)) for client in members]
        key, shares = key_shares(streams, len(members), len(record.answered), record.number // self.term)
        plan = FlamingoPlan(
            record.number, self.graph(n, record.number, streams), len(record.answered), 2 * len(members) // 3 + 1,
            np.arange(n) // record.size, least, key, theirs,
        )  # fmt: skip
        names, online = record.clients.tolist(), np.flatnonzero(record.summed).tolist()
        publics = {u: public_key(secret(streams, "flamingo/key", name)) for u, name in enumerate(names)}
        clients = {u: FlamingoClient(plan, u, names[u], streams) for u in online}
        masked = {u: client.mask(publics, vectors[names[u]]) for u, client in clients.items()}
        sealed = {u: (publics[u], client.shares()) for u, client in clients.items()}
        pairs = [(u, v) for u in online for v in np.flatnonzero(plan.adjacent[u] & ~record.summed).tolist()]
        ciphertexts = {(u, v): clients[u].encrypt(v, publics[v]) for u, v in pairs}
        decryptors = {j: Decryptor(plan, j, int(record.committee[j]), shares[j], streams) for j in record.signed}
        for decryptor in decryptors.values():
            decryptor.sign(record.summed)
        points = {pair: point for pair, (point, _) in ciphertexts.items()}
        responses = {}
        for j in record.answered:
            mine = {u: (public, messages[j]) for u, (public, messages) in sealed.items()}
            responses[j] = decryptors[j].answer(len(record.signed), mine, points)
        return open_sum(plan, masked, ciphertexts, responses)


def separators(adjacent: Bools) -> int:
    """Members without whom the others may no longer be connected, at least; n where all are neighbours.

    It is no less than the second least eigenvalue of the graph's Laplacian (Fiedler, Czech. Math. J. 23, 1973).
    """
    n = len(adjacent)
    if adjacent.sum() == n * (n - 1):
        return n
    laplacian = np.diag(adjacent.sum(axis=1)) - adjacent.astype(np.float64)
    return max(1, ceil(float(np.linalg.eigvalsh(laplacian)[1]) - 1e-6))
