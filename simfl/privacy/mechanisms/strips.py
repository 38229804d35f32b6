"""Whole numbers of any symmetric log-concave law, from a table of strips: two words of random bits a draw.

Strips of equal width cover what matters of the law, and each has a weight, a whole number of 2^-64, at least as large
as its width times the largest probability in it. A strip is drawn by its weight (Walker's alias method, exact, since
weights are whole), then a number in it, evenly; it is kept with its probability over the strip's. Nearly always the
smallest probability in the strip decides that already; where it does not, the law is evaluated, in doubles where that
is sure to be enough and else as exactly as it takes. What lies beyond the strips, less than 2^-60 of all, is drawn by
rejection from a geometric law, in doubles. References: Walker, "An efficient method for generating discrete random
variables with general distributions", ACM TOMS 1977; Devroye, "Non-uniform random variate generation", 1986, X.2-3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from math import ceil, exp, expm1, log2

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONTEXT", "Strips", "strips"]

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
Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Strips:
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

    log_f: Callable[[Whole], Floats]
    exact: Callable[[int], Decimal]
    end: int
    bits: int
    height: float
    weights: list[int]
    share: Words
    other: Whole
    sure: Words

    def draw(self, rng: np.random.Generator, size: int) -> Whole:
        """Independent draws, int64 (size,)."""
        out, filled = np.empty(size, dtype=np.int64), 0
        while filled < size:
            wanted = min(PIECE, size - filled)
            found = self._some(rng, wanted + wanted // 64 + 8)[:wanted]
            out[filled : filled + len(found)] = found
            filled += len(found)
        return out

    def _some(self, rng: np.random.Generator, count: int) -> Whole:
        first, second = rng.integers(0, 2**64, (2, count), dtype=np.uint64)
        cell = (first >> np.uint64(REST)).view(np.int64)
        first &= np.uint64((1 << REST) - 1)
        strip = np.where(first < self.share.take(cell), cell, self.other.take(cell))
        u = second >> np.uint64(self.bits)
        second &= np.uint64((1 << self.bits) - 1)
        found = (strip << self.bits) + second.view(np.int64)
        found -= self.end
        doubtful = np.flatnonzero(u >= self.sure.take(strip))
        if not len(doubtful):
            return found
        values, kept = self._looked_at(rng, strip[doubtful], found[doubtful], u[doubtful])
        found[doubtful] = values
        return np.delete(found, doubtful[~kept])

    def _looked_at(
        self, rng: np.random.Generator, strip: Whole, found: Whole, u: Words
    ) -> tuple[Whole, NDArray[np.bool_]]:
        """Numbers where the strip alone does not decide, or a tail is meant, and whether they are kept."""
        strips, step = len(self.weights) - 2, 2.0 ** (self.bits - 64)
        tails = np.flatnonzero(strip >= strips)
        found[tails] = 0
        bounds = np.array([float(self.weights[i]) for i in strip.tolist()]) / (self.height * 2.0**self.bits)
        p = np.exp(self.log_f(found)) / bounds
        at = u * step
        kept = at + step <= p
        for i in np.flatnonzero(np.abs(at + step / 2 - p) < step + DOUBT * p).tolist():
            kept[i] = self._below(rng, int(u[i]), int(strip[i]), int(found[i]))
        for i in tails.tolist():
            found[i], kept[i] = self._beyond(rng, int(strip[i]) == strips)
        return found, kept

    def _below(self, rng: np.random.Generator, bits: int, strip: int, k: int) -> bool:
        """Whether a uniform number that begins with these bits is below the probability of k over its strip's."""
        known, c = 64 - self.bits, CONTEXT
        p = c.divide(c.multiply(self.exact(k), c.multiply(Decimal(self.height), 1 << self.bits)), self.weights[strip])
        while c.divide(bits, 1 << known) < p < c.divide(bits + 1, 1 << known):
            bits, known = bits << 32 | int(rng.integers(2**32)), known + 32
        return c.divide(bits + 1, 1 << known) <= p

    def _beyond(self, rng: np.random.Generator, above: bool) -> tuple[int, bool]:
        """A number of a tail, and whether it is kept."""
        slope = _slope(self.log_f, self.end)
        steps = int(rng.standard_exponential() / slope)
        k = self.end + steps if above else -self.end - 1 - steps
        limit = self.weights[-2 if above else -1] * -expm1(-slope)
        p = exp(float(self.log_f(np.array([k]))[0]) + slope * steps) * self.height / limit
        return k, bool(rng.random() < p)


def strips(
    log_f: Callable[[Whole], Floats], exact: Callable[[int], Decimal] | None = None, reach: float = REACH
) -> Strips:
    """The table of a law.

    Args:
        log_f: as of :class:`Strips`: of int64 (n,), symmetric and concave, 0 at 0, with an absolute error far below
            1e-11 where it is above -100.
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
    weights[count // 2] += (1 << 64) - sum(weights)
    surely = edges.min(axis=0) * (height * (1 - MARGIN) * 2.0**64) / np.array([float(each) for each in weights[:count]])
    sure = np.zeros(1 << CELLS, dtype=np.uint64)
    sure[:count] = surely.astype(np.uint64)
    share, other = _alias(weights)
    law = exact or (lambda k: Decimal(exp(float(log_f(np.array([k]))[0]))))
    return Strips(log_f, law, end, bits, height, weights, share, other, sure)


def _least(log_f: Callable[[Whole], Floats], reach: float) -> int:
    """The least whole number above 0 where log_f is not above -reach."""
    far = 1
    while log_f(np.array([far]))[0] > -reach:
        far *= 2
    near = far // 2
    while far - near > 1:
        middle = (far + near) // 2
        near, far = (middle, far) if log_f(np.array([middle]))[0] > -reach else (near, middle)
    return far


def _slope(log_f: Callable[[Whole], Floats], end: int) -> float:
    """How much log_f falls from the end on with every step, at least."""
    at = log_f(np.array([end, end + 1]))
    return float(at[0] - at[1])


def _alias(weights: list[int]) -> tuple[Words, Whole]:
    """Cells of 2^54 each, of at most two strips, in which strips have these weights, 2^64 in all."""
    full, cells = 1 << REST, 1 << CELLS
    left = weights + [0] * (cells - len(weights))
    share, other = np.full(cells, full, dtype=np.uint64), np.arange(cells)
    small = [i for i, weight in enumerate(left) if weight < full]
    large = [i for i, weight in enumerate(left) if weight > full]
    while small:
        one, two = small.pop(), large[-1]
        share[one], other[one] = left[one], two
        left[two] -= full - left[one]
        if left[two] <= full:
            large.pop()
            if left[two] < full:
                small.append(two)
    return share, other
