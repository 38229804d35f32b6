"""Masks between pairs that agree on a key once and go on from it (Mugunthan et al., "PrivacyFL", CIKM 2020).

seed_0 = HKDF(X25519), the mask of round r = stream(HKDF(seed_r, "mask")), seed_(r+1) = HKDF(seed_r, "next").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.rng import Streams
from simfl.secagg.base import PROTOCOLS, Ask, Cohort, Contributions, Failed, Prepared, Protocol, Summed, Talk
from simfl.secagg.field import Elements, Q
from simfl.secagg.keys import KEY, Refused, agree, derive, elements, public_key, secret
from simfl.secagg.masked import Masked
from simfl.setting import Setting
from simfl.types import Total

__all__ = ["Member", "PairwiseRatchet", "Record", "seed_at"]

STRIDE = 64
"""Rounds between seeds that are kept."""


class Record(NamedTuple):
    """All that a replay needs: the round, and the largest total weight of a sum."""

    number: int
    limit: float


@PROTOCOLS("pairwise_ratchet")
@dataclass(frozen=True, kw_only=True)
class PairwiseRatchet(Masked, Protocol):
    """Every pair of clients has a mask a round, made of one key agreement before the first.

    A client that is missing fails the round. Who learns a client's state opens the later rounds, not the earlier.
    """

    joint = True

    def known(self, cohort: Cohort) -> dict[str, int]:
        return {"colluding": max(0, cohort.units.size - 2), "dropouts": 0}

    def setup(self, cohort: Cohort, streams: Streams) -> Talk:
        peers = cohort.clients - 1
        yield Ask("setup", cohort.units.ravel(), KEY * peers, KEY * peers, peers * self.rates.agreement_s)

    def prepare(self, cohort: Cohort, streams: Streams) -> Talk:
        masks = (cohort.units.size - 1) * self.length(cohort.dimension)
        return Prepared(np.ones(len(cohort.units), dtype=bool), compute_s=masks * self.rates.element_s)
        yield

    def cautions(self, setting: Setting) -> list[str]:
        rates, n = setting.devices.failure.rates(setting, Streams(setting.seed)), setting.selection.k
        found = super().cautions(setting)
        if n is not None and rates is not None and (lost := 1 - (1 - float(rates.mean())) ** n) > 0:
            found.append(f"one missing client fails a round: of {n}, about {100 * lost:.0f} % of the rounds fail")
        return found

    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams) -> Talk:
        missing, n = int((~uploaded).sum()), uploaded.size
        if missing:
            return Failed(f"upload: {missing} of {n} clients are missing, and their masks stay in the sum")
        if (found := cohort.hiding(uploaded.ravel())) < (self.min_sum or 2):
            return Failed(f"upload: {found} clients, a sum needs {self.min_sum}")
        if no_room := self.no_room(cohort):
            return Failed(no_room)
        return Summed(np.ones(len(uploaded), dtype=bool), Record(cohort.number, self.limit(cohort)))
        yield

    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        divisor = given.divisor(given.weights)
        if not self.computes(given):
            return Total(given.combine(given.vectors, given.weights, divisor, given.holds), given.clients, given.row)
        sent, least = self.sent(given, given.weights, done.secret.limit, streams), self.min_sum or 2
        members = {u: Member(u, secret(streams, "pairwise_ratchet/key", u), least) for u in given.clients.tolist()}
        publics = {u: member.public for u, member in members.items()}
        sums: Elements = np.zeros_like(sent.vectors[0])
        for member, vector in zip(members.values(), sent.vectors, strict=True):
            member.meet({v: key for v, key in publics.items() if v != member.me})
            sums += member.mask(done.secret.number, vector)
        return self.mean(sums % Q, sent, [1] * len(sent.vectors), divisor, given)


class Member:
    """One client: it meets others once, and masks one vector a round.

    Args:
        me: its number.
        private: its key, 32 bytes.
        least: clients that a sum must hold.
    """

    def __init__(self, me: int, private: bytes, least: int) -> None:
        self.me, self.private, self.least = me, private, least
        self.public = public_key(private)
        self.seeds: dict[int, bytes] = {}
        self.round = -1

    def meet(self, publics: dict[int, bytes]) -> None:
        """Takes the others' keys.

        Raises:
            Refused: a key is its own, is there twice, or is of no use.
        """
        if self.me in publics or len({*publics.values(), self.public}) <= len(publics):
            raise Refused("a public key is there twice")
        for v, public in publics.items():
            pair = f"secagg ratchet {min(self.me, v)} {max(self.me, v)}".encode()
            self.seeds[v] = derive(agree(self.private, public), pair)

    def mask(self, number: int, vector: NDArray[np.int64]) -> Elements:
        """Whole numbers under this round's masks with all whom it has met.

        Raises:
            Refused: it has masked a vector in this round or a later one, or it has met too few.
        """
        if number <= self.round:
            raise Refused("a mask is used once")
        if len(self.seeds) + 1 < self.least:
            raise Refused(f"a sum of fewer than {self.least} clients")
        self.round, total = number, vector % Q
        for v, seed in self.seeds.items():
            shared = elements(derive(seed_at(seed, number), b"mask"), len(vector))
            total = total + shared if v > self.me else total - shared
        return total % Q


@lru_cache(maxsize=1 << 16)
def _kept(seed: bytes, strides: int) -> bytes:
    return _steps(_kept(seed, strides - 1), STRIDE) if strides else seed


def seed_at(seed: bytes, round: int) -> bytes:
    """The seed of a round, as many steps after the first."""
    return _steps(_kept(seed, round // STRIDE), round % STRIDE)


def _steps(seed: bytes, count: int) -> bytes:
    for _ in range(count):
        seed = derive(seed, b"next")
    return seed
