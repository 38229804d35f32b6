"""Masks between pairs that agree on a key once and go on from it (Mugunthan et al., "PrivacyFL", CIKM 2020).

seed_0 = HKDF(X25519), the mask of round r = stream(HKDF(seed_r, "mask")), seed_(r+1) = HKDF(seed_r, "next").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.plugins import Aggregate, Streams
from simfl.plugins.masks import (
    KEY,
    Elements,
    MaskedProtocol,
    ProtocolViolation,
    Q,
    agree,
    derive,
    elements,
    public_key,
    secret,
)
from simfl.plugins.secagg import (
    PROTOCOLS,
    ClientUpdates,
    Cohort,
    PhaseRequest,
    PreparedUnits,
    Rows,
    Session,
    SessionFailure,
    SessionResult,
    Transcript,
)

STRIDE = 64
"""Rounds between seeds that are kept."""


class RatchetRecord(NamedTuple):
    """All that a replay needs: the round, and the largest total weight of a sum."""

    number: int
    limit: float


@PROTOCOLS("pairwise_ratchet")
@dataclass(frozen=True, kw_only=True)
class PairwiseRatchet(MaskedProtocol):
    """Every pair of clients has a mask a round, made of one key agreement before the first.

    A client that is missing fails the round. Who learns a client's state opens the later rounds, not the earlier.
    """

    joint = True

    def known(self, cohort: Cohort) -> dict[str, int]:
        return {"colluding": max(0, cohort.units.size - 2), "dropouts": 0}

    def setup(self, cohort: Cohort, streams: Streams) -> Session[Any]:
        peers = cohort.clients - 1
        yield PhaseRequest("setup", cohort.units.ravel(), KEY * peers, KEY * peers, peers * self.rates.agreement_s)

    def prepare(self, cohort: Cohort, streams: Streams) -> Session[PreparedUnits | SessionFailure]:
        if obstacle := self._obstacle(cohort):
            return obstacle
        masks = (cohort.units.size - 1) * self.length(cohort.dimension)
        return PreparedUnits(np.ones(len(cohort.units), dtype=bool), compute_s=masks * self.rates.element_s)
        yield

    def _obstacle(self, cohort: Cohort) -> SessionFailure | None:
        """Known before the upload, with which masks go away by themselves."""
        if (hiding := cohort.hiding(np.ones(cohort.units.size, dtype=bool))) < (self.min_sum or 2):
            return SessionFailure(f"upload: {hiding} clients, a sum needs {self.min_sum}")
        no_room = self.no_room(cohort)
        return SessionFailure(no_room) if no_room else None

    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        missing, n = int((~uploaded).sum()), uploaded.size
        if missing:
            why = f"upload: {missing} of {n} clients are missing, and their masks stay in the sum"
            return SessionFailure(why, tolerated=0)
        if obstacle := self._obstacle(cohort):
            return obstacle
        return SessionResult(np.ones(len(uploaded), dtype=bool), RatchetRecord(cohort.number, self.limit(cohort)))
        yield

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        return transcript.unless_missing(coalition)

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        if not self.computes(updates):
            return self.clear_aggregate(updates, result.secret.limit)
        quantised = self.quantise_updates(updates, updates.weights, result.secret.limit, streams)
        members = {
            u: RatchetClient(u, secret(streams, "pairwise_ratchet/key", u), self.min_sum or 2)
            for u in updates.clients.tolist()
        }
        publics = {u: member.public for u, member in members.items()}
        sums: Elements = np.zeros_like(quantised.vectors[0])
        for member, vector in zip(members.values(), quantised.vectors, strict=True):
            member.meet({v: key for v, key in publics.items() if v != member.me})
            sums += member.mask(result.secret.number, vector)
        return self.mean(sums % Q, quantised, updates, updates.divisor(updates.weights))


class RatchetClient:
    """One client: it meets others once, and masks one vector a round, for a sum of ``least`` clients or more."""

    def __init__(self, me: int, private: bytes, least: int) -> None:
        self.me, self.private, self.least = me, private, least
        self.public = public_key(private)
        self.seeds: dict[int, bytes] = {}
        self.round = -1

    def meet(self, publics: dict[int, bytes]) -> None:
        """Takes the others' keys.

        Raises:
            ProtocolViolation: a key is its own, is there twice, or is of no use.
        """
        if self.me in publics or len({*publics.values(), self.public}) <= len(publics):
            raise ProtocolViolation("a public key is there twice")
        for v, public in publics.items():
            pair = f"secagg ratchet {min(self.me, v)} {max(self.me, v)}".encode()
            self.seeds[v] = derive(agree(self.private, public), pair)

    def mask(self, number: int, vector: NDArray[np.int64]) -> Elements:
        """Whole numbers under this round's masks with all whom it has met.

        Raises:
            ProtocolViolation: it has masked a vector in this round or a later one, or it has met too few.
        """
        if number <= self.round:
            raise ProtocolViolation("a mask is used once")
        if len(self.seeds) + 1 < self.least:
            raise ProtocolViolation(f"a sum of fewer than {self.least} clients")
        self.round, total = number, vector % Q
        for v, seed in self.seeds.items():
            shared = elements(derive(seed_at(seed, number), b"mask"), len(vector))
            total = total + shared if v > self.me else total - shared
        return total % Q


@lru_cache(maxsize=1 << 16)
def _seed_at_stride(seed: bytes, strides: int) -> bytes:
    return _steps(_seed_at_stride(seed, strides - 1), STRIDE) if strides else seed


def seed_at(seed: bytes, round: int) -> bytes:
    """The seed of a round, as many steps after the first."""
    return _steps(_seed_at_stride(seed, round // STRIDE), round % STRIDE)


def _steps(seed: bytes, count: int) -> bytes:
    for _ in range(count):
        seed = derive(seed, b"next")
    return seed
