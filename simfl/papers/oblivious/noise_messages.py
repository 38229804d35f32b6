"""The messages of a round of oblivious distributed noise; all n parties of a step at once, sender by sender.

Party i deals two masked noises to every other party, the server swaps them at random and adds one random number to
both, and party j adds one of them to its vector without knowing which, or what it is:

    eta_ij^b = s_ij + D_ij^b (i to the server)      theta_ij^c = eta_ij^(c xor swap) + rho_ij (the server to j)
    y_j = x_j + masks_j + sum_i theta_ij^(bit) - sum_k s_jk,          sum y - sum rho = sum x + noise   (mod q)

Reference: Byrd, Mugunthan, Polychroniadou and Balch, "Collusion resistant federated learning with oblivious
distributed differential privacy", ICAIF 2022, Protocol 1; in Mugunthan's thesis (MIT 2022) chapter 2 and appendix A.8.
"""

from dataclasses import dataclass
from math import ceil, exp, expm1, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.plugins import Streams
from simfl.plugins.masks import Elements, Q, elements, secret

STEEPEST = 700.0
"""Exponents beyond are too large for a number."""


class Terms(NamedTuple):
    """Sparse whole numbers, int64 (m,), at ascending places; those at the other places are 0."""

    places: NDArray[np.int64]
    values: NDArray[np.int64]

    def dense(self, size: int) -> NDArray[np.int64]:
        """All ``size`` of them."""
        dense = np.zeros(size, dtype=np.int64)
        dense[self.places] = self.values
        return dense


@dataclass(frozen=True)
class GridNoise:
    """The distribution of a term: a Polya share of shape 1/n for n parties; its scale in steps of the grid.

    A Polya share is the difference of two negative binomial variables of shape 1/n, which is the difference of two
    Gamma(1/n, scale) on the grid. Rounded one by one, such Gammas would hardly leave any noise where their scale is not
    many steps; Polya shares add up exactly, n of them to a variable with probabilities proportional to e^(-|k| /
    scale). The sum of a round holds n (n - 1), so that neighbouring probabilities of its noise differ by a factor of
    e^(1 / scale) at most, on any grid: that of one such variable, which adding others can only bring closer.

    A difference of two negative binomials is a sum of a Poisson number of jumps of either sign and logarithmic size
    (Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", Applied Statistics 1981), so
    that only terms are drawn that may not be 0: nearly all are.
    """

    shape: float
    scale: float

    @property
    def variance(self) -> float:
        """Of a term; the shapes of several add up."""
        if not self.scale or 1 / self.scale > STEEPEST:
            return 0.0
        return 2 * self.shape * exp(-1 / self.scale) / expm1(-1 / self.scale) ** 2

    def draw(self, rng: np.random.Generator, size: int) -> Terms:
        """Independent terms."""
        if not self.scale or 1 / self.scale > STEEPEST:
            return Terms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        rest = log(-expm1(-1 / self.scale))  # of the probability of a whole number that is not 0
        jumps = int(rng.poisson(-2 * self.shape * rest * size))
        with np.errstate(divide="ignore"):
            stay = -np.log1p(-np.exp(rest * (1 - rng.random(jumps))))
        sizes = 1 + np.floor(rng.standard_exponential(jumps) / stay)
        signed = np.where(rng.random(jumps) < 0.5, -sizes, sizes)
        places, where = np.unique(rng.integers(0, size, jumps), return_inverse=True)
        values = np.bincount(where, signed, len(places)).astype(np.int64)
        return Terms(places[values != 0], values[values != 0])


def pure_epsilon(moved: float, scale: float) -> float:
    """The pure epsilon of a number that is rounded at random to the grid and gets a whole Laplace variable or more.

    Let it lie x beyond a step, which is what it becomes with probability 1 - x, and else the next one. The chance of
    any result is P = (1 - x) p + x p', of neighbouring probabilities p and p' of the noise, and |dP/dx| = |p' - p| <= P
    (e^(1/scale) - 1), since p and p' differ by a factor of e^(1/scale) at most. So ln P changes by no more than
    (e^(1/scale) - 1) a step, which goes to 1/scale on fine grids. On coarse ones another bound is less: with the same
    coin, two numbers are rounded to steps that are at most the whole number above their distance apart.

    Args:
        moved: by how much the number may change, in steps.
        scale: of the noise, in steps; 0 = there is none.
    """
    if not moved:
        return 0.0
    if not scale:
        return inf
    coupled = ceil(moved) / scale
    return min(coupled, moved * expm1(1 / scale)) if 1 / scale < STEEPEST else coupled


Bits = NDArray[np.bool_]


class ObliviousPlan(NamedTuple):
    """What everybody knows.

    Attributes:
        number: of the aggregation whose noise this is.
        clients: the parties, int32 (n,).
        elements: of a vector, d.
        kept_share: whether the masks s_ij are shares of 0 of which a party keeps one and adds it (appendix A.8); else
            it takes all that it has dealt off its own vector (Protocol 1).
    """

    number: int
    clients: NDArray[np.int32]
    elements: int
    noise: GridNoise
    kept_share: bool = False

    @property
    def parties(self) -> int:
        """Their number, n."""
        return len(self.clients)


class Dealt(NamedTuple):
    """What a party deals.

    Attributes:
        masks: s_ij, (n, d); 0 for itself.
        terms: D_ij^b, whole numbers, of which few are not 0; places in an array (2, n, d); none for itself.
        zero_share: what the party adds to its own vector besides, (d,).
    """

    masks: Elements
    terms: Terms
    zero_share: Elements

    @property
    def noise(self) -> NDArray[np.int64]:
        """D_ij^b, (2, n, d)."""
        return self.terms.dense(2 * self.masks.size).reshape(2, *self.masks.shape)

    @property
    def sent(self) -> Elements:
        """The message to the server: eta_ij^b, (2, n, d)."""
        message, (places, values) = np.concatenate([self.masks.ravel()] * 2), self.terms
        message[places] = (message[places] + values) % Q
        return message.reshape(2, *self.masks.shape)


class Forwarded(NamedTuple):
    """What the server forwards of one party's noises.

    Attributes:
        pair: theta_ij^c, (2, n, d).
        random: rho_ij summed over the receivers, (d,): what the server takes off the sum.
        swapped: bool (n, d): whether the two changed places; the server's secret.
    """

    pair: Elements
    random: Elements
    swapped: Bits


@dataclass(frozen=True)
class Party:
    """Who deals noise."""

    plan: ObliviousPlan
    me: int
    streams: Streams

    def draw_noise(self) -> Dealt:
        """Draws masks and noise for all other parties."""
        plan, name = self.plan, int(self.plan.clients[self.me])
        n, d = plan.parties, plan.elements
        own_stream = secret(self.streams, "oblivious/masks", plan.number, name)
        masks = elements(own_stream, n * d).reshape(n, d)
        zero_share, masks[self.me] = masks[self.me].copy(), 0
        if plan.kept_share:
            last = (self.me + 1) % n
            masks[last] = 0
            masks[last] = -(masks.sum(axis=0) + zero_share) % Q
        else:
            zero_share = -masks.sum(axis=0) % Q
        places, values = plan.noise.draw(self.streams("oblivious/noise", plan.number, name), 2 * n * d)
        others = places // d % n != self.me
        return Dealt(masks, Terms(places[others], values[others]), zero_share)


def forward(plan: ObliviousPlan, sender: int, sent: Elements, streams: Streams) -> Forwarded:
    """What the server makes of a party's noises: each two swapped or not, and one random number added to both."""
    n, d, name = plan.parties, plan.elements, int(plan.clients[sender])
    swapped = _bits(streams("oblivious/swap", plan.number, name), (n, d))
    random = elements(secret(streams, "oblivious/random", plan.number, name), n * d).reshape(n, d)
    random[sender] = 0
    pair = np.stack([np.where(swapped, sent[1], sent[0]), np.where(swapped, sent[0], sent[1])])
    pair += random
    np.subtract(pair, Q, out=pair, where=pair >= Q)  # both were below q
    return Forwarded(pair, random.sum(axis=0), swapped)


def choices(plan: ObliviousPlan, number: int, sender: int, streams: Streams) -> Bits:
    """Which of the two noises of a sender each party takes in round ``number``, bool (n, d); row j is party j's."""
    shape = (plan.parties, plan.elements)
    return _bits(streams("oblivious/choice", number, int(plan.clients[sender])), shape)


def _bits(rng: np.random.Generator, shape: tuple[int, int]) -> Bits:
    size = shape[0] * shape[1]
    return np.unpackbits(rng.integers(256, size=-(-size // 8), dtype=np.uint8), count=size).view(bool).reshape(shape)


class ObliviousRound(NamedTuple):
    """A round as the server has it: y_i, what the parties have sent, (n, d), and what it takes off their sum, (d,)."""

    vectors: Elements
    random: Elements

    @property
    def total(self) -> Elements:
        """The sum of all vectors and of the noise, (d,)."""
        return (self.vectors.sum(axis=0) - self.random) % Q


def run_round(plan: ObliviousPlan, number: int, vectors: NDArray[np.int64], streams: Streams) -> ObliviousRound:
    """Everybody's part in a round; ``vectors`` are whole, (n, d), under masks that cancel out over all, not reduced."""
    total, random = vectors % Q, np.zeros(plan.elements, dtype=np.int64)
    for i in range(plan.parties):
        dealt = Party(plan, i, streams).draw_noise()
        passed = forward(plan, i, dealt.sent, streams)
        total += np.where(choices(plan, number, i, streams), passed.pair[1], passed.pair[0])
        total[i] += dealt.zero_share
        random += passed.random
    return ObliviousRound(total % Q, random)
