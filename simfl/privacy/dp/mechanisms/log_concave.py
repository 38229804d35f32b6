"""Exact sampler of any symmetric log-concave law on the whole numbers: an alias table, two random words a draw."""

# Theory of operation
# ===================
#
# What is computed. f(k) = P(k) / P(0) is symmetric and log-concave on the whole numbers, so it falls from f(0) = 1 to
# both sides. Independent draws of P are made by rejection from a step function above f. Every probability in the
# process but that of the far tails is exact: sums of 64-bit words, compared with whole numbers.
#
# The table (``log_concave_sampler``), built once for each law:
#   * -end .. end - 1 is cut into S strips of 2^bits numbers, where f(end) is about e^-45. S is at most 1022, so that
#     the strips and the two tails fit into the 2^10 cells of the alias table.
#   * strip i has a whole weight W_i, and all weights add up to exactly 2^64:
#         W_i >= height * 2^bits * max of f over the strip        (the maximum is at one of the strip's two ends).
#     MARGIN covers the rounding of doubles; what is left of 2^64 goes to the strip that begins at 0.
#   * a tail's weight is at least height * f(end) / (1 - e^-slope), slope = ln f(end) - ln f(end + 1): because f is
#     log-concave, f(end + j) <= f(end) e^(-slope j), a geometric series.
#   * Walker's alias method: the weights are spread over 2^10 cells of 2^54 each, so that a cell holds at most two
#     strips: ``share`` is the part of the strip with the cell's own number, ``other`` the number of the second one.
#     Weights are whole numbers, so that the strip is drawn with probability exactly W_i / 2^64.
#   * sure_i = 2^(64 - bits) * (min of f over the strip) * height * 2^bits / W_i, rounded down.
#
# A draw (``_candidates``) takes two words of 64 random bits:
#
#     first  = | cell: 10 bits | r: 54 bits                 |   strip = cell if r < share[cell] else other[cell]
#     second = | u: 64 - bits bits         | place: bits    |   k = -end + strip * 2^bits + place
#
# and k is accepted iff u / 2^(64 - bits) < p(k) := f(k) * height * 2^bits / W_strip, which is at most 1.
#
# Why it is right. P(k is proposed and accepted) = W/2^64 * 2^-bits * p(k) = f(k) * height / 2^64: the same constant
# times f(k) for every k. Given that it is accepted, k has law P, whatever the weights are; they only decide how often.
#
# Why it is fast. If u < sure the number is accepted whichever of its strip it is: nothing is evaluated, which is so in
# nearly all draws, as f hardly falls within a strip. All steps are numpy operations on arrays that stay in the cache.
#
# The hard turns (``_decide``), for the few numbers with u >= sure:
#   * f is evaluated in doubles. The uniform number behind u lies in [u, u + 1) * step, step = 2^(bits - 64): if all of
#     that is below p it is accepted, if all is above it is rejected.
#   * where p is inside, or nearer than the error of doubles (DOUBT), ``_exactly_below`` compares with the exact f,
#     given to 90 decimal digits, and appends 32 more random bits to u as long as the answer depends on them. A
#     doubtful number therefore costs time, not exactness.
#   * a tail (weight below 2^-60 of all) is a geometric variable j with ratio e^-slope, accepted with
#     p = f(k) e^(slope j) height / (W_tail (1 - e^-slope)), in doubles: the only place where the law is not exact.
#
# Invariants: the weights add up to 2^64; sure <= 2^(64 - bits) p(k) for every k of the strip; end = S/2 * 2^bits.
# Rejected numbers are left out, and ``draw`` asks for a few more than it needs, so that which words a draw takes from
# its stream depends on the stream and the table alone.
#
# References: Walker, "An efficient method for generating discrete random variables with general distributions", ACM
# TOMS 1977; Devroye, "Non-uniform random variate generation", 1986, X.2-3 (log-concave laws); Canonne, Kamath and
# Steinke, "The discrete Gaussian for differential privacy", 2020 (why exactness matters: floating-point noise leaks).

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from math import ceil, exp, expm1, log2

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Bools, Floats, Integers

CONTEXT = Context(prec=90)
"""In which exact probabilities are given."""
CELLS = 10
"""Bits that choose a cell of the alias table."""
REST = 64 - CELLS
"""Bits that choose between the two strips of a cell."""
MOST = (1 << CELLS) - 2
"""Strips at most; there are two tails."""
REACH = 45.0
"""Strips reach to where a number is e^-45 as likely as 0."""
MARGIN = 1e-9
"""By which a weight may be too large; far above all rounding."""
DOUBT = 1e-11
"""Far above the relative error of a probability in doubles."""
PIECE = 1 << 13
"""Draws at a time: they stay in the processor's cache."""

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class LogConcaveSampler:
    """The table of a law; the last two strips are what lies above the others and what lies below.

    Attributes:
        log_f: logarithms of the probabilities of whole numbers, over that of 0.
        exact: the probability of one, over that of 0, to as many digits as are known.
        end: the strips' numbers are those from -end to below end.
        bits: each strip holds 2^bits of them.
        height: no strip's weight is below its width times this, times any of its numbers' probabilities.
        weights: of the strips, whole, 2^64 in all.
        share, other: (cells,): of 2^54, how much of a cell is the strip of the same place; and the strip of the rest.
        sure: (cells,): of 2^(64 - bits), what is kept of a strip whichever number it is.
    """

    log_f: Callable[[Integers], Floats]
    exact: Callable[[int], Decimal]
    end: int
    bits: int
    height: float
    weights: list[int]
    share: Words
    other: Integers
    sure: Words

    def draw(self, rng: np.random.Generator, size: int) -> Integers:
        """Independent draws, int64 (size,)."""
        out, filled = np.empty(size, dtype=np.int64), 0
        while filled < size:
            wanted = min(PIECE, size - filled)
            numbers = self._candidates(rng, wanted + wanted // 64 + 8)[:wanted]
            out[filled : filled + len(numbers)] = numbers
            filled += len(numbers)
        return out

    def _candidates(self, rng: np.random.Generator, count: int) -> Integers:
        first, second = rng.integers(0, 2**64, (2, count), dtype=np.uint64)  # laid out as above; split in place
        cell = (first >> np.uint64(REST)).view(np.int64)
        first &= np.uint64((1 << REST) - 1)
        strip = np.where(first < self.share.take(cell), cell, self.other.take(cell))
        u = second >> np.uint64(self.bits)
        second &= np.uint64((1 << self.bits) - 1)
        numbers = (strip << self.bits) + second.view(np.int64)
        numbers -= self.end
        doubtful = np.flatnonzero(u >= self.sure.take(strip))
        if not len(doubtful):
            return numbers
        values, accepted = self._decide(rng, strip[doubtful], numbers[doubtful], u[doubtful])
        numbers[doubtful] = values
        return np.delete(numbers, doubtful[~accepted])

    def _decide(self, rng: np.random.Generator, strip: Integers, numbers: Integers, u: Words) -> tuple[Integers, Bools]:
        """Numbers where the strip alone does not decide, or a tail is meant, and whether they are kept."""
        n_strips, step = len(self.weights) - 2, 2.0 ** (self.bits - 64)
        tails = np.flatnonzero(strip >= n_strips)
        numbers[tails] = 0
        bounds = np.array([float(self.weights[i]) for i in strip.tolist()]) / (self.height * 2.0**self.bits)
        p = np.exp(self.log_f(numbers)) / bounds
        at = u * step
        accepted = at + step <= p
        for i in np.flatnonzero(np.abs(at + step / 2 - p) < step + DOUBT * p).tolist():
            accepted[i] = self._exactly_below(rng, int(u[i]), int(strip[i]), int(numbers[i]))
        for i in tails.tolist():
            numbers[i], accepted[i] = self._tail(rng, int(strip[i]) == n_strips)
        return numbers, accepted

    def _exactly_below(self, rng: np.random.Generator, bits: int, strip: int, k: int) -> bool:
        """Whether a uniform number that begins with these bits is below the probability of k over its strip's."""
        known, c = 64 - self.bits, CONTEXT
        p = c.divide(c.multiply(self.exact(k), c.multiply(Decimal(self.height), 1 << self.bits)), self.weights[strip])
        while c.divide(bits, 1 << known) < p < c.divide(bits + 1, 1 << known):
            bits, known = bits << 32 | int(rng.integers(2**32)), known + 32
        return c.divide(bits + 1, 1 << known) <= p

    def _tail(self, rng: np.random.Generator, above: bool) -> tuple[int, bool]:
        """A number of a tail, and whether it is kept."""
        slope = _slope(self.log_f, self.end)  # the geometric law e^(-slope j) lies above f beyond the strips
        steps = int(rng.standard_exponential() / slope)
        k = self.end + steps if above else -self.end - 1 - steps
        limit = self.weights[-2 if above else -1] * -expm1(-slope)
        p = exp(float(self.log_f(np.array([k]))[0]) + slope * steps) * self.height / limit
        return k, bool(rng.random() < p)


def log_concave_sampler(
    log_f: Callable[[Integers], Floats], exact: Callable[[int], Decimal] | None = None, reach: float = REACH
) -> LogConcaveSampler:
    """The table of a law.

    Args:
        log_f: as of :class:`LogConcaveSampler`: of int64 (n,), symmetric and concave, 0 at 0, with an absolute error
            far below 1e-11 where it is above -100.
        exact: None = what ``log_f`` says, in doubles.
        reach: -log_f of the last strips; less only to look at the tails.
    """
    least = _least(log_f, reach)
    bits = max(0, ceil(log2((2 * least + 2) / MOST)))
    count = 2 * -(-(least + 1) >> bits)
    end = count // 2 << bits
    starts = (np.arange(count, dtype=np.int64) << bits) - end
    edges = np.exp(np.stack([log_f(starts), log_f(starts + ((1 << bits) - 1))]))
    slope = _slope(log_f, end)
    tail = exp(float(log_f(np.array([end]))[0])) / -expm1(-slope)
    masses = np.append(edges.max(axis=0) * 2.0**bits, [tail, tail])
    height = 2.0**64 * (1 - 2 * MARGIN) / float(masses.sum())
    weights = [int(mass * height * (1 + MARGIN)) + 1 for mass in masses.tolist()]
    weights[count // 2] += (1 << 64) - sum(weights)  # exactly 2^64 in all; the strip that begins at 0 has room for it
    surely = edges.min(axis=0) * (height * (1 - MARGIN) * 2.0**64) / np.array([float(each) for each in weights[:count]])
    sure = np.zeros(1 << CELLS, dtype=np.uint64)
    sure[:count] = surely.astype(np.uint64)
    share, other = _alias(weights)
    law = exact or (lambda k: Decimal(exp(float(log_f(np.array([k]))[0]))))
    return LogConcaveSampler(log_f, law, end, bits, height, weights, share, other, sure)


def _least(log_f: Callable[[Integers], Floats], reach: float) -> int:
    """The least whole number above 0 where log_f is not above -reach."""
    far = 1
    while log_f(np.array([far]))[0] > -reach:
        far *= 2
    near = far // 2
    while far - near > 1:
        middle = (far + near) // 2
        near, far = (middle, far) if log_f(np.array([middle]))[0] > -reach else (near, middle)
    return far


def _slope(log_f: Callable[[Integers], Floats], end: int) -> float:
    """How much log_f falls from the end on with every step, at least."""
    at = log_f(np.array([end, end + 1]))
    return float(at[0] - at[1])


def _alias(weights: list[int]) -> tuple[Words, Integers]:
    """Cells of 2^54 each, of at most two strips, in which strips have these weights, 2^64 in all."""
    full, cells = 1 << REST, 1 << CELLS
    left = weights + [0] * (cells - len(weights))
    share, other = np.full(cells, full, dtype=np.uint64), np.arange(cells)
    small = [i for i, weight in enumerate(left) if weight < full]
    large = [i for i, weight in enumerate(left) if weight > full]
    while small:  # Vose's construction: what a light strip leaves of its cell is filled from a heavy one
        one, two = small.pop(), large[-1]
        share[one], other[one] = left[one], two
        left[two] -= full - left[one]
        if left[two] <= full:
            large.pop()
            if left[two] < full:
                small.append(two)
    return share, other
