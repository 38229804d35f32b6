"""The sessions of SecAgg and SecAgg+ (Bonawitz et al. 2017, Bell et al. 2020): messages in, messages out.

Clients are called by their positions 0 ... n-1 in the cohort. Client u's masked vector is

    y_u = x_u + PRG(b_u) + sum over neighbours v > u of PRG(s_uv) - sum over neighbours v < u of PRG(s_uv)   (mod q).
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.secagg.crypto import shamir
from simfl.secagg.crypto.field import Elements
from simfl.secagg.crypto.keys import ProtocolViolation, agree, derive, public_key, seal, secret, sum_masked, unseal
from simfl.secagg.neighbours import Circle


class PairwisePlan(NamedTuple):
    """What everybody knows of an aggregation.

    Attributes:
        threshold: shares that open a secret, t.
        unit: which unit each position belongs to, (n,).
        min_sum: clients that a sum must hold at least.
    """

    number: int
    circle: Circle
    threshold: int
    unit: NDArray[np.int64]
    min_sum: int


class Secrets(NamedTuple):
    """What a client draws for an aggregation: two private keys, the seed of its own mask, that of its polynomials."""

    seal: bytes
    mask: bytes
    self_mask: bytes
    polynomials: bytes

    @classmethod
    def of(cls, streams: Streams, number: int, client: int) -> "Secrets":
        """Those of a client in an aggregation."""
        purposes = ("seal", "mask", "own", "polynomials")  # of the streams, so that runs stay as they are
        return cls(*(secret(streams, f"secagg/{purpose}", number, client) for purpose in purposes))


class Keys(NamedTuple):
    """The public halves of a client's keys."""

    seal: bytes
    mask: bytes


NONE: Elements = np.empty((0, shamir.LIMBS), dtype=np.int64)


class Share(NamedTuple):
    """A share of one of a client's two secrets: of the seed of its own mask, or of its mask key.

    Attributes:
        self_mask: of the seed.
        limbs: (9,).
        further: beside that of the seed, shares of the last of its further secrets, (opened, 9).
    """

    self_mask: bool
    limbs: Elements
    further: Elements = NONE


def seed_between(number: int, private: bytes, public: bytes, a: int, b: int) -> bytes:
    """The seed of the mask that two positions share."""
    return derive(agree(private, public), f"secagg mask {number} {min(a, b)} {max(a, b)}".encode())


class PairwiseClient:
    """One client in one aggregation. It answers each phase once, and refuses what would expose somebody.

    ``further`` are secrets of 32 bytes that it shares besides; all but as many of the last ones as nobody is missing
    for stay closed.
    """

    def __init__(self, plan: PairwisePlan, me: int, secrets: Secrets, further: Sequence[bytes] = ()) -> None:
        self.plan, self.me, self.secrets, self.further = plan, me, secrets, tuple(further)
        self.neighbours = plan.circle.of(me)
        self.keys: dict[int, Keys] = {}
        self.channels: dict[int, bytes] = {}
        self.received_shares: dict[int, Elements] = {}
        self.done: set[str] = set()
        self.opened = 0

    def advertise(self) -> Keys:
        """Phase 0: its public keys."""
        self._once("advertise")
        return Keys(public_key(self.secrets.seal), public_key(self.secrets.mask))

    def share(self, keys: Mapping[int, Keys]) -> dict[int, bytes]:
        """Phase 1: for each neighbour whose keys came, sealed shares of its secrets.

        Raises:
            ProtocolViolation: a key is not a neighbour's, is of no use, or is there twice.
        """
        self._once("share")
        if not keys.keys() <= set(self.neighbours.tolist()):
            raise ProtocolViolation("keys of clients that are no neighbours")
        if len({key for pair in keys.values() for key in pair}) < 2 * len(keys):
            raise ProtocolViolation("a public key is there twice")
        self.keys = dict(keys)
        to = np.array(sorted(keys), dtype=np.int64)
        mine = [self.secrets.mask, self.secrets.self_mask, *self.further]
        shares = shamir.shares(mine, to + 1, self.plan.threshold, self.secrets.polynomials)
        self.channels = {v: agree(self.secrets.seal, keys[v].seal) for v in to.tolist()}
        return {v: self._seal_share(v, limbs) for v, limbs in zip(to.tolist(), shares, strict=True)}

    def receive(self, forwarded: Mapping[int, bytes]) -> None:
        """Phase 2, with the model: the neighbours' shares; who sent one is in the masks.

        Raises:
            ProtocolViolation: a message is not what a neighbour has sent.
        """
        self._once("receive")
        for v, message in forwarded.items():
            if v not in self.channels:
                raise ProtocolViolation("shares of somebody whose keys never came")
            text = unseal(self._key(v, self.me), message, self._ids(v, self.me))
            if text[:8] != self._ids(v, self.me):
                raise ProtocolViolation("shares that are meant for somebody else")
            self.received_shares[v] = np.frombuffer(text[8:], dtype="<u4").astype(np.int64).reshape(-1, shamir.LIMBS)

    def mask(self, vector: NDArray[np.int64]) -> Elements:
        """Phase 2, after training: whole numbers under its own mask and those it shares with its neighbours."""
        self._once("mask")
        seeds: dict[bool, list[bytes]] = {True: [self.secrets.self_mask], False: []}
        for v in self.received_shares:
            shared = seed_between(self.plan.number, self.secrets.mask, self.keys[v].mask, self.me, v)
            seeds[v > self.me].append(shared)
        return sum_masked([vector], seeds[True], seeds[False])

    def unmask(self, summed: Iterable[int], opened: int = 0) -> dict[int, Share]:
        """Phase 3: of each neighbour in the masks one share: of its own mask's seed if it is summed, else of its key.

        Args:
            summed: the neighbours whose vectors are summed.
            opened: how many of the further secrets of everybody in the sum are opened, the last ones.

        Raises:
            ProtocolViolation: it has answered before, or the sum would expose somebody, or further secrets that are
                needed.
        """
        self._once("unmask")
        known = set(summed)
        if not known <= self.received_shares.keys():
            raise ProtocolViolation("a sum of clients that are not in the masks")
        if opened and opened + len(self.neighbours) - len(known) > len(self.further):
            raise ProtocolViolation("further secrets of which so many are missing that they stay closed")
        mine = self._in_sum(known)
        unseen = len(self.plan.unit) - 1 - len(self.neighbours)
        if len(known) + (mine is not False) + unseen < self.plan.min_sum:
            raise ProtocolViolation(f"a sum of fewer than {self.plan.min_sum} clients")
        if mine and not known and self.plan.min_sum > 1:
            raise ProtocolViolation("a sum in which it is connected with nobody")
        self.opened = opened
        return {
            v: Share(True, limbs[1], limbs[len(limbs) - opened :]) if v in known else Share(False, limbs[0])
            for v, limbs in self.received_shares.items()
        }

    def reveal(self) -> tuple[bytes, ...]:
        """Phase 3, if it is in the sum: those of its own further secrets that it opens of the others, too."""
        return self.further[len(self.further) - self.opened :]

    def _in_sum(self, known: set[int]) -> bool | None:
        """Whether it is itself in the sum, as its unit tells; None if it cannot know.

        Raises:
            ProtocolViolation: a unit is in the sum in part.
        """
        unit, mine = self.plan.unit, self.plan.unit[self.me]
        inside = np.zeros(len(unit), dtype=bool)
        inside[list(known)] = True
        whole = np.bincount(unit[self.neighbours])
        summed = np.bincount(unit[self.neighbours], weights=inside[self.neighbours])
        if ((summed > 0) & (summed < whole)).any():
            raise ProtocolViolation("a sum that splits a unit")
        mates = int((unit == mine).sum()) - 1
        if not mates:
            return True
        seen = (unit[self.neighbours] == mine).any()
        return bool(summed[mine] > 0) if seen else None

    def _seal_share(self, v: int, limbs: Elements) -> bytes:
        text = self._ids(self.me, v) + limbs.astype("<u4").tobytes()
        return seal(self._key(self.me, v), text, self._ids(self.me, v))

    def _key(self, sender: int, to: int) -> bytes:
        other = to if sender == self.me else sender
        return derive(self.channels[other], f"secagg share {self.plan.number} {sender} {to}".encode())

    @staticmethod
    def _ids(sender: int, to: int) -> bytes:
        return pack("<2I", sender, to)

    def _once(self, phase: str) -> None:
        if phase in self.done:
            raise ProtocolViolation(f"asked twice to {phase}")
        self.done.add(phase)


class PairwiseServer:
    """The server in one aggregation: it forwards messages and takes the masks off the sum."""

    def __init__(self, plan: PairwisePlan) -> None:
        self.plan = plan
        self.keys: dict[int, Keys] = {}

    def publish(self, keys: Mapping[int, Keys]) -> dict[int, dict[int, Keys]]:
        """For everybody who has advertised, the keys of those neighbours that have."""
        self.keys = dict(keys)
        return {u: {v: keys[v] for v in self.plan.circle.of(u).tolist() if v in keys} for u in keys}

    def forward(self, shares: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """For everybody in the masks, what those neighbours have sent that are in them, too."""
        return {v: {u: sent[v] for u, sent in shares.items() if v in sent} for v in shares}

    def unmask(
        self, vectors: Mapping[int, Elements], masked: Iterable[int], responses: Mapping[int, Mapping[int, Share]]
    ) -> Elements:
        """The sum of the vectors without masks.

        Args:
            vectors: the masked vectors of those who are summed.
            masked: everybody whose masks may be in them.
            responses: what the last phase brought.

        Raises:
            ProtocolViolation: a secret cannot be opened.
        """
        seeds: dict[bool, list[bytes]] = {True: [], False: []}
        for u in masked:
            if u in vectors:
                seeds[False].append(self._open(u, True, responses))
                continue
            others = [v for v in self.plan.circle.of(u).tolist() if v in vectors]
            mask_key = self._open(u, False, responses) if others else b""
            for v in others:
                shared = seed_between(self.plan.number, mask_key, self.keys[v].mask, u, v)
                seeds[v > u].append(shared)  # v's vector holds it with the other sign
        return sum_masked(list(vectors.values()), seeds[True], seeds[False])

    def further(
        self,
        summed: Iterable[int],
        opened: int,
        revealed: Mapping[int, tuple[bytes, ...]],
        responses: Mapping[int, Mapping[int, Share]],
    ) -> dict[int, tuple[bytes, ...]]:
        """The last ``opened`` further secrets of everybody in the sum: its own word, or of shares where it has failed.

        Raises:
            ProtocolViolation: a secret cannot be opened.
        """
        secrets = dict(revealed)
        for u in set(summed) - revealed.keys():
            shares = {v: answer[u].further for v, answer in sorted(responses.items()) if u in answer}
            limbs = np.array(list(shares.values()), dtype=np.int64).reshape(len(shares), opened, shamir.LIMBS)
            secrets[u] = tuple(
                shamir.combine_shares(limbs, np.array(list(shares), dtype=np.int64) + 1, self.plan.threshold)
            )
        return secrets

    def _open(self, u: int, self_mask: bool, responses: Mapping[int, Mapping[int, Share]]) -> bytes:
        shares = {v: answer[u] for v, answer in sorted(responses.items()) if u in answer}
        if any(share.self_mask != self_mask for share in shares.values()):
            raise ProtocolViolation("both secrets of a client would be opened")
        limbs = np.array([share.limbs for share in shares.values()], dtype=np.int64).reshape(len(shares), 1, -1)
        (opened,) = shamir.combine_shares(limbs, np.array(list(shares), dtype=np.int64) + 1, self.plan.threshold)
        if not self_mask and public_key(opened) != self.keys[u].mask:
            raise ProtocolViolation("shares give another key than the one that was advertised")
        return opened
