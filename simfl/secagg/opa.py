"""One-shot private aggregation: clients speak once (Karthikeyan, Polychroniadou, "OPA", arXiv 2410.22303).

A client masks its update by a pseudorandom generator that is nearly linear in its seed, and leaves shares of the seed,
sealed, with a committee of clients that is drawn anew each round; all of it goes up in one message. Each member of the
committee adds up the shares of the clients in the sum and answers once. The server decodes the sum of the seeds,
expands it, and takes it off the sum of the messages. Written from the paper's abstract and excerpts of its code; q, p
and l below are chosen here.

**The generator** (learning with rounding, LWR). q is the product of the four largest primes below 2^32, A a public
random matrix, s in Z_q^l a seed, p = Q D with D = 2^16. With Y(s) = p (A s mod q) / q, a real vector,

    G(s) = floor(Y(s)) mod p,    client u sends    y_u = D (x_u mod Q) + G(s_u)  mod p,    6 bytes a coordinate.

A seed is a column of residues modulo each prime, so that shares lie in four fields and add up exactly modulo q.

**Sums are exact.** Let S be the sum of the seeds of n clients, and t_u = Y(s_u) - floor(Y(s_u)) in [0, 1). The sum of
Y(s_u) is Y(S) modulo p, so that that of G(s_u) is G(S) + e with the whole number e = t_S - sum of t_u in (-n, 1), and
that of y_u, less G(S), is D X + e mod p, X being the sum of x_u mod Q. With n < D / 2 the nearest multiple of D is D X:
the low 16 bits hold e, and X is the sum in the field, bit for bit. Four fractions are added up in floating point,
within 2^-50, so that a t lies in [-2^-50, 1 + 2^-50] and e in [-n, 1].

**What hides.** A mask is uniform modulo p but for p / q < 2^-79 a coordinate, if LWR with these parameters is hard. Its
noise has a standard deviation of q / (p sqrt 12), so that the modulus is 2^49.8 times the noise; with a uniform secret
and l = 2048 the Homomorphic Encryption Standard (2018, table 1) gives 128 bits of security up to 2^54.3. That shrinks
in proportion to l: shorter seeds would save bytes and not hide, and are refused. The server learns e, which depends on
seeds and never on updates.

**The shares** are packed: a seed is cut into U - T pieces and T random rows, as in :mod:`simfl.secagg.coded_session`:
any T say nothing, any U decode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.core.prime_field import PRIMES, Residues, times
from simfl.core.rng import Streams
from simfl.core.types import Aggregate, Bools, Integers
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.coded_session import MaskCode
from simfl.secagg.crypto.field import Elements, Q, inverse, vandermonde
from simfl.secagg.crypto.keys import ELEMENT, ID, KEY, TAG, ProtocolViolation, channel, public_key, seal, secret, unseal
from simfl.secagg.lightsecagg import Coded
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
from simfl.secagg.transcript import Transcript

ROOM = 1 << 16
"""D: by how much whole numbers are multiplied, so that rounding stays below them."""
P = Q * ROOM
MASKED = 6
"""Bytes of an element modulo p < 2^48."""
SAFE = 2048
"""Length of a seed with 128 bits of security."""
ROWS = 256
"""Coordinates whose masks are expanded at a time."""


class OpaRecord(NamedTuple):
    """Who did what; all that a replay needs.

    Attributes:
        summed: the unit of each client in the sum; units have ``size`` clients.
        limit: the largest total weight of a sum.
        committee: members whose answers decode, U, by their place in the committee.
        least: clients that a sum must hold.
    """

    number: int
    code: MaskCode
    summed: dict[int, int]
    size: int
    limit: float
    committee: dict[int, int]
    least: int


@PROTOCOLS("opa")
@dataclass(frozen=True, kw_only=True)
class OneShot(Coded, CommitteeProtocol):
    """A client speaks once: its masked update, and shares of the mask's seed for a committee that answers once."""

    seed_length: Annotated[
        int, Field(ge=SAFE, le=1 << 20, description="length of a seed; at 2048 or more it is hidden, by LWR")
    ] = SAFE

    phases = ("unmask",)
    columns = (*MASKED_COLUMNS, failing("unmask"))

    def code(self, helpers: int, dimension: int) -> MaskCode | None:
        code = super().code(helpers, dimension)
        return None if code is None else replace(code, length=self.seed_length)

    def upload_bytes(self, update_bytes: object, dimension: int) -> Any:
        return MASKED * self.length(dimension)

    def no_room(self, cohort: Cohort) -> str | None:
        if cohort.units.size >= ROOM // 2:
            return f"{cohort.units.size} clients are too many for the bits that rounding takes; at most {ROOM // 2 - 1}"
        return super().no_room(cohort)

    def known(self, cohort: Cohort) -> dict[str, int]:
        n, members = cohort.units.size, self.members(cohort.clients)
        code = self.code(members, cohort.dimension)
        assert code is not None, "survivors is above private"
        dropouts = max(0, min(members - code.survivors, (n - (self.min_sum or 2)) // cohort.units.shape[1]))
        return {"survivors": code.survivors, "colluding": code.private, "dropouts": dropouts}

    def helpers(self, transcript: Transcript, streams: Streams) -> NDArray[np.int32]:
        return self.committee_of("opa", transcript.round, transcript.population, streams)

    # -- the sessions --------------------------------------------------------------------------------

    def setup(self, cohort: Cohort, streams: Streams) -> Session[Any]:
        """Everybody's key becomes public."""
        yield PhaseRequest("setup", cohort.units.ravel(), 0, KEY)

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        members = self.members(cohort.clients)
        code, no_room = self.code(members, cohort.dimension), self.no_room(cohort)
        if code is None or no_room:
            return SessionFailure(no_room or f"of {members} members, as many must not learn as are enough to decode")
        rates, share = self.rates, len(PRIMES) * code.piece
        compute_s = members * (rates.agreement_s + share * code.survivors * rates.product_s)
        compute_s += len(PRIMES) * code.length * self.length(cohort.dimension) * rates.product_s
        up = members * (ID + ELEMENT * share + TAG)
        return PreparedUnits(np.ones(len(cohort.units), dtype=bool), code, members * (ID + KEY), compute_s, up)
        yield

    def recover(
        self, cohort: Cohort, uploaded: Bools, prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        (code,), size, rates = prepared, cohort.units.shape[1], self.rates
        clients, summed = cohort.units.ravel(), whole_units(uploaded.ravel(), size)
        if few := self.few(cohort, summed):
            return SessionFailure(f"upload: {few}", tolerated=code.private)
        n, share = int(summed.sum()), len(PRIMES) * code.piece
        members = self.committee_of("opa", cohort.number, cohort.clients, streams)
        compute_s, up = n * (rates.agreement_s + share * rates.element_s), ELEMENT * share
        down, needed = n * (ID + KEY + ELEMENT * share + TAG), code.survivors
        responded = yield PhaseRequest("unmask", members, down, up, compute_s, needed, self.deadline_s)
        if responded.sum() < needed:
            return self.too_few_answers(int(responded.sum()), code)
        answering = {j: int(members[j]) for j in np.flatnonzero(responded)[:needed].tolist()}
        inside = {int(clients[u]): int(u) // size for u in np.flatnonzero(summed)}
        record = OpaRecord(cohort.number, code, inside, size, self.limit(cohort), answering, self.min_sum or 2)
        products = needed * (share + needed**2) + len(PRIMES) * code.length * self.length(cohort.dimension)
        return SessionResult(summed.reshape(-1, size)[:, 0], record, products * rates.product_s)

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        replay = partial(replay_sessions, result.secret, streams=streams)
        return self.sum_of(updates, result.secret.limit, streams, replay)


# -- arithmetic modulo q, a prime at a time ------------------------------------------------------------------------


def product(a: NDArray[Any], b: Residues, p: int) -> Residues:
    """The matrix product (m, k) x (k, n) modulo a prime below 2^32, exactly.

    Halves of 16 bits are multiplied in float64, whose sums stay below 2^53 with k up to 2^21.
    """
    halves = [(each >> 16, each & 0xFFFF) for each in (a, b)]
    (a1, a0), (b1, b0) = ([half.astype(np.float64) for half in pair] for pair in halves)
    top, middle, low = a1 @ b1, a1 @ b0 + a0 @ b1, a0 @ b0
    total = top.astype(np.uint64) % np.uint64(p)
    for part in (middle, low):
        total = (total * np.uint64(1 << 16) + part.astype(np.uint64)) % np.uint64(p)
    return total


def masks(number: int, seeds: Residues, length: int, streams: Streams) -> NDArray[np.uint64]:
    """G of each seed, (length, n), modulo p, of residues modulo each prime, (4, l, n); the round draws the matrix."""
    expanded = np.empty((length, seeds.shape[2]), dtype=np.uint64)
    for first in range(0, length, ROWS):
        count = min(ROWS, length - first)
        whole, fraction = np.zeros((count, seeds.shape[2]), dtype=np.uint64), np.zeros((count, seeds.shape[2]))
        for i, (p, seed) in enumerate(zip(PRIMES, seeds, strict=True)):
            matrix = streams("opa/matrix", number, first, i).integers(p, size=(count, len(seed)), dtype=np.uint32)
            others = np.uint64(pow(prod(PRIMES) // p, -1, p))
            of_p = times(product(matrix, seed, p), others, p)  # A s / q is the sum of these over their primes, mod 1
            high, rest = np.divmod(of_p * np.uint64(Q), np.uint64(p))
            low, rest = np.divmod(rest * np.uint64(ROOM), np.uint64(p))
            whole += high * np.uint64(ROOM) + low
            fraction += rest / p
        expanded[first : first + count] = (whole + fraction.astype(np.uint64)) % np.uint64(P)
    return expanded


# -- the messages --------------------------------------------------------------------------------------------------


class OneShotClient:
    """A client in one round: one seed, one message."""

    def __init__(self, number: int, me: int, code: MaskCode, streams: Streams) -> None:
        self.number, self.me, self.code = number, me, code
        self.private = secret(streams, "opa/key", me)
        self.public = public_key(self.private)
        rng = streams("opa/seed", number, me)
        self.seed = np.stack([rng.integers(p, size=code.length, dtype=np.uint64) for p in PRIMES])
        self.rows = [rng.integers(p, size=(code.private, code.piece), dtype=np.uint64) for p in PRIMES]

    def mask(self, expanded: NDArray[np.uint64], vector: Integers) -> NDArray[np.uint64]:
        """Whole numbers, (d,), under the mask that its seed expands to, modulo p."""
        return ((vector % Q).astype(np.uint64) * np.uint64(ROOM) + expanded) % np.uint64(P)

    def shares(self, publics: Mapping[int, bytes]) -> dict[int, bytes]:
        """A sealed share of its seed for each member, whose keys are given by their places 0, 1, ..."""
        code, points, at = self.code, np.array(list(publics)) + 1, []
        for p, seed, random_rows in zip(PRIMES, self.seed, self.rows, strict=True):
            pieces = np.zeros((code.survivors - code.private, code.piece), dtype=np.uint64)
            pieces.reshape(-1)[: code.length] = seed
            at.append(product(vandermonde(points, code.survivors, p), np.concatenate([pieces, random_rows]), p))
        sealed = {}
        for (place, public), share in zip(publics.items(), np.stack(at, axis=1), strict=True):
            key = channel(self.private, public, f"opa share {self.number} {self.me} {place}")
            sealed[place] = seal(key, share.astype("<u4").tobytes(), b"")
        return sealed


class CommitteeMember:
    """A client that adds up shares of seeds, in one round and for one sum."""

    def __init__(self, number: int, place: int, private: bytes, least: int) -> None:
        self.number, self.place, self.private, self.least = number, place, private, least
        self.public, self.done = public_key(private), False

    def answer(self, messages: Mapping[int, tuple[bytes, bytes]], unit: Mapping[int, int], size: int) -> Residues:
        """The sum, (4, piece), of the shares that senders have sealed, by sender with its key; units are of ``size``.

        Raises:
            ProtocolViolation: it has answered before, the sum splits a unit or holds too few, or a message is not what
                its sender has sent.
        """
        if self.done:
            raise ProtocolViolation("a second sum in one round")
        if len(messages) < self.least:
            raise ProtocolViolation(f"a sum of fewer than {self.least} clients")
        if (np.bincount([unit[sender] for sender in messages]) % size).any():
            raise ProtocolViolation("a sum that splits a unit")
        self.done, shares = True, []
        for sender, (public, message) in messages.items():
            key = channel(self.private, public, f"opa share {self.number} {sender} {self.place}")
            shares.append(np.frombuffer(unseal(key, message, b""), dtype="<u4").reshape(len(PRIMES), -1))
        return np.sum(shares, axis=0, dtype=np.uint64) % np.array(PRIMES, dtype=np.uint64)[:, None]


def decode_seed(code: MaskCode, responses: Mapping[int, Residues]) -> Residues:
    """The sum of seeds, (4, l), of the members' sums by their places; fewer than U are a ProtocolViolation."""
    if len(responses) < code.survivors:
        raise ProtocolViolation(f"{len(responses)} answers, but {code.survivors} are needed")
    places, seed = sorted(responses)[: code.survivors], []
    for i, p in enumerate(PRIMES):
        decoding = inverse(vandermonde(np.array(places) + 1, code.survivors, p), p)
        pieces = product(decoding, np.stack([responses[place][i] for place in places]), p)
        seed.append(pieces[: code.survivors - code.private].reshape(-1)[: code.length])
    return np.stack(seed)


def unmask(messages: Sequence[NDArray[np.uint64]], mask: NDArray[np.uint64]) -> Elements:
    """The sum of the clients' numbers modulo Q: what is left without the mask of the summed seed, rounded."""
    left = np.sum(messages, axis=0, dtype=np.uint64) % np.uint64(P) + np.uint64(P) - mask
    return ((left + np.uint64(ROOM // 2)) % np.uint64(P) // np.uint64(ROOM)).astype(np.int64)


def replay_sessions(record: OpaRecord, vectors: Mapping[int, Integers], streams: Streams) -> Elements:
    """The sum that the sessions come to, of the summed clients' vectors in whole numbers."""
    clients = [OneShotClient(record.number, client, record.code, streams) for client in record.summed]
    members = {
        place: CommitteeMember(record.number, place, secret(streams, "opa/key", member), record.least)
        for place, member in record.committee.items()
    }
    publics = {place: member.public for place, member in members.items()}
    sealed = {client.me: (client.public, client.shares(publics)) for client in clients}
    responses = {
        place: member.answer(
            {sender: (public, shares[place]) for sender, (public, shares) in sealed.items()}, record.summed, record.size
        )
        for place, member in members.items()
    }
    seeds = np.stack([*(client.seed for client in clients), decode_seed(record.code, responses)], axis=2)
    each = masks(record.number, seeds, len(next(iter(vectors.values()))), streams)
    sent = [client.mask(each[:, i], vectors[client.me]) for i, client in enumerate(clients)]
    return unmask(sent, each[:, -1])
