"""The sessions of Flamingo (Ma, Woods, Angel, Polychroniadou, Rabin, IEEE S&P 2023): messages in, messages out.

Clients are called by their positions 0 ... n-1 in the cohort, decryptors by their places 0 ... L-1. As with SecAgg a
client sends

    y_u = x_u + PRG(b_u) + sum over neighbours v > u of PRG(s_uv) - sum over neighbours v < u of PRG(s_uv)   (mod q),

but nobody agrees on anything in a round: keys are published once, s_uv is derived from an agreement and the round's
number, and public randomness gives the graph. With its message a client leaves shares of b_u, sealed to each decryptor,
and each s_uv encrypted to the decryptors' common key: (r G, s_uv xor KDF(r K)), on the curve P-256. Of that key K = k G
each decryptor has a Shamir share k_j, so that t of them open a ciphertext by k_j (r G), and fewer learn nothing of it.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.types import Bools
from simfl.secagg.crypto import keys, shamir
from simfl.secagg.crypto.field import Elements
from simfl.secagg.crypto.keys import Point, ProtocolViolation, secret
from simfl.secagg.pairwise_session import seed_between

PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256 (FIPS 186-4): its field, and its group."""


def combination(scalars: Sequence[int], points: Sequence[Point]) -> Point:
    """The sum of multiples of points, which must not be 0: all of them share the doublings, in Jacobian coordinates."""
    x, y, z = 1, 1, 0
    for bit in range(max(scalars).bit_length() - 1, -1, -1):
        x, y, z = _double(x, y, z)
        for factor, point in zip(scalars, points, strict=True):
            if factor >> bit & 1:
                x, y, z = _add(x, y, z, *point)
    inverse = pow(z, -1, PRIME)
    return x * inverse**2 % PRIME, y * inverse**3 % PRIME


def _double(x: int, y: int, z: int) -> tuple[int, int, int]:
    squared, slope = y * y % PRIME, 3 * (x - z * z) * (x + z * z) % PRIME
    product = x * squared % PRIME
    new = (slope * slope - 8 * product) % PRIME
    return new, (slope * (4 * product - new) - 8 * squared * squared) % PRIME, 2 * y * z % PRIME


def _add(x: int, y: int, z: int, other_x: int, other_y: int) -> tuple[int, int, int]:
    if z == 0:
        return other_x, other_y, 1
    square = z * z % PRIME
    run, rise = (other_x * square - x) % PRIME, (other_y * z * square - y) % PRIME
    if run == 0:
        return _double(x, y, z) if rise == 0 else (1, 1, 0)
    cube, middle = run**3 % PRIME, x * run * run % PRIME
    new = (rise * rise - cube - 2 * middle) % PRIME
    return new, (rise * (middle - new) - y * cube) % PRIME, z * run % PRIME


def at_zero(places: Sequence[int]) -> list[int]:
    """The weights with which shares at these places give a polynomial's value at 0."""
    others = [[j for j in places if j != i] for i in places]
    return [
        prod(j + 1 for j in rest) * pow(prod(j - i for j in rest), -1, ORDER) % ORDER for i, rest in zip(places, others)
    ]


@lru_cache(maxsize=64)
def key_shares(streams: Streams, size: int, threshold: int, term: int) -> tuple[Point, tuple[int, ...]]:
    """The decryptors' public key, and the share that each of ``size`` decryptors of a term has of the private one.

    In the first term each deals a random polynomial, and the key is the sum of their values at 0 (Gennaro et al. 2007).
    Later the first ``threshold`` of the last term deal their shares, weighted so that the key stays the same.
    """
    if term:
        public, before = key_shares(streams, size, threshold, term - 1)
        weights = at_zero(range(threshold))
        dealt = [weight * share % ORDER for weight, share in zip(weights, before)]
    else:
        dealt = [scalar(streams, "flamingo/dealt", 0, dealer, 0) for dealer in range(size)]
        public = keys.base_multiple(sum(dealt) % ORDER)
    shares = [0] * size
    for dealer, constant in enumerate(dealt):
        higher = [scalar(streams, "flamingo/dealt", term, dealer, power) for power in range(1, threshold)]
        for place in range(size):
            shares[place] += sum(c * (place + 1) ** power for power, c in enumerate([constant, *higher]))
    return public, tuple(share % ORDER for share in shares)


def scalar(streams: Streams, purpose: str, *key: int) -> int:
    """A random one, not 0."""
    return int.from_bytes(streams(purpose, *key).bytes(40), "little") % (ORDER - 1) + 1


class FlamingoPlan(NamedTuple):
    """What everybody knows of a round.

    Attributes:
        adjacent: bool (n, n): who is whose neighbour, symmetric.
        threshold, signatures: shares that open a secret, t; and decryptors who have to sign a set of clients.
        unit: which unit each position belongs to, (n,).
        min_sum: clients that a sum must hold at least.
        key: the decryptors' public key.
        decryptors: their keys of agreements.
    """

    number: int
    adjacent: Bools
    threshold: int
    signatures: int
    unit: NDArray[np.int64]
    min_sum: int
    key: Point
    decryptors: Sequence[bytes]

    def label(self, *ends: int) -> str:
        """Of what is between two in this round."""
        return f"flamingo {self.number} {' '.join(map(str, ends))}"


def groups(adjacent: Bools, members: Bools) -> NDArray[np.int64]:
    """The group of each member, (n,), who reach one another through members, numbered from 0; -1 = no member."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    inside, places = np.flatnonzero(members), np.full(len(members), -1)
    places[inside] = connected_components(csr_array(adjacent[np.ix_(inside, inside)]), directed=False)[1]
    return places


Ciphertext = tuple[Point, bytes]
"""A mask's seed, encrypted to the decryptors: r G, and the seed xor what r K derives."""


Opening = tuple[dict[int, Elements], dict[tuple[int, int], Point]]
"""Of the sum's clients shares of their own masks' seeds, (9,); of ciphertexts, by both ends, their partial keys."""


def hidden(seed: bytes, point: Point, label: str) -> bytes:
    """A seed xor what a point derives for the label's use; and back."""
    key = keys.derive(point[0].to_bytes(32, "big"), f"flamingo seed {label}".encode())
    return bytes(a ^ b for a, b in zip(seed, key, strict=True))


class FlamingoClient:
    """One client in one round, at position ``me``; it speaks once."""

    def __init__(self, plan: FlamingoPlan, me: int, name: int, streams: Streams) -> None:
        self.plan, self.me, self.name, self.streams = plan, me, name, streams
        self.private = secret(streams, "flamingo/key", name)
        self.self_mask = secret(streams, "flamingo/own", plan.number, name)
        self.done = False

    def mask(self, publics: Mapping[int, bytes], vector: NDArray[np.int64]) -> Elements:
        """Whole numbers, (d,), under its masks, by the neighbours' public keys; twice is a ProtocolViolation."""
        if self.done:
            raise ProtocolViolation("a second vector in one round")
        self.done, near = True, np.flatnonzero(self.plan.adjacent[self.me]).tolist()
        seeds = {v: seed_between(self.plan.number, self.private, publics[v], self.me, v) for v in near}
        after = [seed for v, seed in seeds.items() if v > self.me]
        return keys.sum_masked([vector], [self.self_mask, *after], [seed for v, seed in seeds.items() if v < self.me])

    def shares(self) -> list[bytes]:
        """For each decryptor a sealed share of the seed of its own mask."""
        points = np.arange(len(self.plan.decryptors)) + 1
        polynomials = secret(self.streams, "flamingo/polynomials", self.plan.number, self.name)
        mine = shamir.shares([self.self_mask], points, self.plan.threshold, polynomials)[:, 0]
        return [
            keys.seal(
                keys.channel(self.private, public, self.plan.label(self.me, j)), share.astype("<u4").tobytes(), b""
            )
            for j, (public, share) in enumerate(zip(self.plan.decryptors, mine, strict=True))
        ]

    def encrypt(self, v: int, public: bytes) -> Ciphertext:
        """The seed of its mask with a neighbour."""
        r = scalar(self.streams, "flamingo/encrypt", self.plan.number, self.name, v)
        seed = seed_between(self.plan.number, self.private, public, self.me, v)
        return keys.base_multiple(r), hidden(seed, combination([r], [self.plan.key]), self.plan.label(self.me, v))


class Decryptor:
    """A client that helps to open a round's sum: it signs one set of clients, and answers about that one, once.

    Signatures have a size and take time; what they would keep off, a server that forges them, is not simulated.
    """

    def __init__(self, plan: FlamingoPlan, place: int, name: int, share: int, streams: Streams) -> None:
        self.plan, self.place, self.share, self.private = plan, place, share, secret(streams, "flamingo/key", name)
        self.signed: Bools | None = None
        self.done = False

    def sign(self, online: Bools) -> None:
        """Cross-check: it signs the set of clients whose messages the server says have come, bool (n,).

        Raises:
            ProtocolViolation: it has signed, or the sum would split a unit, hold too few, or fall into sums of groups.
        """
        if self.signed is not None:
            raise ProtocolViolation("a second set of clients in one round")
        unit = self.plan.unit
        if (np.bincount(unit[online], minlength=unit.max() + 1) % np.bincount(unit)).any():
            raise ProtocolViolation("a sum that splits a unit")
        if online.sum() < self.plan.min_sum:
            raise ProtocolViolation(f"a sum of fewer than {self.plan.min_sum} clients")
        if groups(self.plan.adjacent, online).max() > 0:
            raise ProtocolViolation("a sum of clients that are not connected")
        self.signed = online

    def answer(
        self, signatures: int, sealed: Mapping[int, tuple[bytes, bytes]], points: Mapping[tuple[int, int], Point]
    ) -> Opening:
        """Reconstruction, once so many have signed its set: of clients' public keys and sealed shares, by position, and
        of the first parts of ciphertexts, by the positions of who has made them and of who is missing.

        Raises:
            ProtocolViolation: it has answered, too few have signed this set, or it would open masks of its clients
                with one another or the own mask of another.
        """
        if self.done or self.signed is None:
            raise ProtocolViolation("a set of clients that it has not signed, or answered about")
        if signatures < self.plan.signatures:
            raise ProtocolViolation(f"fewer than {self.plan.signatures} decryptors have signed")
        online = self.signed
        if not all(online[u] for u in sealed) or not all(online[u] and not online[v] for u, v in points):
            raise ProtocolViolation("masks of which the sum needs others")
        self.done, shares = True, {}
        for u, (public, message) in sealed.items():
            text = keys.unseal(keys.channel(self.private, public, self.plan.label(u, self.place)), message, b"")
            shares[u] = np.frombuffer(text, dtype="<u4").astype(np.int64)
        return shares, {pair: combination([self.share], [point]) for pair, point in points.items()}


def open_sum(
    plan: FlamingoPlan,
    vectors: Mapping[int, Elements],
    ciphertexts: Mapping[tuple[int, int], Ciphertext],
    openings: Mapping[int, Opening],
) -> Elements:
    """The sum of masked vectors, by position, without masks; fewer than t answers are a ProtocolViolation."""
    places = sorted(openings)[: plan.threshold]
    at = np.array(places, dtype=np.int64) + 1
    limbs = np.array([[openings[j][0][u] for u in vectors] for j in places], dtype=np.int64)
    minus = shamir.combine_shares(limbs.reshape(len(places), len(vectors), -1), at, plan.threshold)
    plus, weights = list[bytes](), at_zero(places)
    for (u, v), (_, text) in ciphertexts.items():
        point = combination(weights, [openings[j][1][u, v] for j in places])
        (minus if v > u else plus).append(hidden(text, point, plan.label(u, v)))
    return keys.sum_masked(list(vectors.values()), plus, minus)
