"""The weak guarantee at several ranks: an interval around min { |v|_0 : 0 != v in R }."""

# Theory of operation
# ===================
#
# What is computed. R is the row space of the participation matrix P (rounds x clients). A vector v = c P of R is what
# the server obtains by adding up its aggregates with coefficients c: the sum of v_i times client i's update. The weak
# guarantee is the least number of clients in such a combination, min |v|_0 over v != 0. That is the minimum distance of
# a linear code, NP-hard in general (Vardy, IEEE Trans. IT 43, 1997), so the result is an interval [lower, upper]: every
# upper bound has a vector that attains it, every lower bound a proof that no lighter vector exists.
#
# Over which numbers. Weights are exact numbers (``Values``), and the search runs modulo a prime p below 2^32. A vector
# of R with integral coefficients without a common factor is a codeword modulo p, with at most as many non-zeros. So
#     "no codeword modulo p weighs less than w"  implies  "no vector of R weighs less than w"
#     (one prime suffices),
# but a codeword need not come from a vector of R as light as itself: p may divide an entry. A light codeword therefore
# counts only if its support carries a codeword modulo a second prime (``birth``) and, within the budget, a vector in
# fractions (``lives``). One that fails becomes the *shadow*: nothing is proven beyond its weight with this prime, and
# the enumeration is repeated with the other prime.
#
# The code (linear_code.py). Two columns that are proportional are zero together in every codeword, so they are merged
# into one *place*, whose weight is the number of clients behind it. Places are ordered by ascending weight. A
# codeword's weight is the sum of the weights of its places.
#
# The order of the work.
#   1. ``_start``: each round is itself a vector, so the smallest rounds are the first upper bounds. The strong and the
#      semi-strong guarantee are lower bounds, and classes that can be isolated are upper bounds.
#   2. ``_descend``: information-set search (``search``) lowers the upper bound. Only the last rank, the
#      first rank and, by bisection, ranks between two different bounds are searched.
#   3. ``_enumerate``: levels w = 1, 2, 3, ... list all codewords on exactly w places (``level``) as long as the
#      budget affords it. After level w every codeword on at most w places is known; any other has at least w + 1
#      places, hence at least the weight of the w + 1 lightest places: that is the new lower bound.
#
# Why few ranks suffice. R only grows with the rounds, so the value never grows with the rank: a lower bound at rank r
# holds at all ranks below r (``raise_lower``), and a vector whose last round comes in at rank r counts from r on
# (``add_vector``). Both arrays of :class:`Weak` therefore stay non-increasing, and lower <= value <= upper holds at
# every rank at all times, whatever the budget cuts off. Budgets count operations, never seconds, so the interval is
# the same on every machine.
#
# Level w in detail. Let Q be a basis of the null space, with row q_c for place c: v is a codeword iff sum v_c q_c = 0.
# A codeword on w places is a linear dependency of w rows of Q. Instead of the rows, w random linear functionals of them
# are kept. For every set of w - 2 places (the lightest of the codeword, so that each codeword is met once), these rows
# are projected out, each with one functional, and two functionals x, y remain. Two further places a, b complete a
# dependency only if x_a : y_a = x_b : y_b. Chance makes two ratios equal once in p times, so each hit is verified.
#
# Packing. To find equal ratios, each column's ratio x / y mod p (32 bits) and its number (20 bits) are packed into one
# 64-bit key, ratio << 20 | column, and each row of keys is sorted: equal ratios become neighbours, two neighbours have
# the same ratio iff the xor of their keys is below 2^20, and since columns are ordered by weight the first pair of a
# run is its lightest. No second array has to be carried through the sort, and one sort of words is all that a set
# costs. Ratios use 0 .. p - 1; p itself stands for y = 0 (parallel to one another), p + 1 for x = y = 0: such a place
# lies in the span of what was projected out, belongs to a lighter codeword that an earlier level has met, and is
# skipped.
#
# References: So et al., arXiv 2106.03328, Remark 1 (the guarantee); Stern, "A method for finding codewords of small
# weight", 1989 (the search); Singleton's bound, weight <= places - rank + 1, decides where proofs can reach far.

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.guarantee_trace import Budget
from simfl.privacy.multiround.linear_code import LinearCode, code, code_work, level, level_work, search, search_work
from simfl.privacy.multiround.witness import birth, lives

TRIALS = 16
AIM = 5  # vectors on more places are enumerated only where that takes little of the budget


@dataclass
class Weak:
    """Bounds at ranks 1 .. R, int64 (R + 1,), non-increasing; index 0 is not used.

    ``source`` says for each rank where the vector of weight ``upper`` lives: classes, or the number of a round.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    source: list[NDArray[np.int64] | int]

    def add_vector(self, rank: int, weight: int, source: NDArray[np.int64] | int) -> None:
        """Notes that a vector of this weight exists from ``rank`` on."""
        for r in range(rank, len(self.upper)):
            if weight < self.upper[r]:
                self.upper[r], self.source[r] = weight, source

    def raise_lower(self, rank: int, weight: int) -> None:
        """Notes that up to ``rank`` there is no vector of less weight."""
        self.lower[: rank + 1] = np.maximum(self.lower[: rank + 1], weight)


def weak(basis: Basis, ranks: list[int], last: dict[int, int], known: dict[int, float], limit: int, seed: int) -> Weak:
    """Bounds of the weak guarantee at some ranks.

    Args:
        ranks: positive ranks.
        last: for each rank the last round at which the matrix has it.
        known: lower bounds from elsewhere (the semi-strong value), by rank.
        limit: budget of the search, of the enumeration and of proofs in fractions, each.
        seed: of the search.
    """
    state = _start(basis)
    for rank in ranks:
        state.raise_lower(rank, int(basis.classes.smallest[last[rank]]))
        state.raise_lower(rank, int(np.ceil(known.get(rank, 0.0) - 1e-6)))
    for c in np.flatnonzero(basis.isolated):
        if basis.size[c] < state.upper[basis.isolated[c]]:
            state.add_vector(int(basis.isolated[c]), int(basis.size[c]), np.array([c]))
    if not ranks:
        return state
    ranks = sorted(ranks)
    proofs = Budget(limit)
    _descend(basis, state, ranks, Budget(limit), proofs, seed)
    _enumerate(basis, state, ranks, last, Budget(limit), proofs)
    return state


def _start(basis: Basis) -> Weak:
    """The rounds themselves as the first upper bounds."""
    top, nobody = len(basis.rounds), basis.of.shape[1] + 1
    state = Weak(np.ones(top + 1, dtype=np.int64), np.full(top + 1, nobody), [-1] * (top + 1))
    counts = np.diff(basis.of.indptr)[: basis.known]
    least = np.minimum.accumulate(np.where(counts > 0, counts, nobody))
    ranks = basis.rank()
    for t in np.flatnonzero(np.diff(least, prepend=nobody)):
        if ranks[t]:
            state.add_vector(int(ranks[t]), int(least[t]), int(t))
    return state


def _accept(basis: Basis, state: Weak, rank: int, support: NDArray[np.int64], proofs: Budget) -> bool:
    """Takes a support found modulo one prime if it holds modulo the other and, within the budget, in fractions."""
    born = birth(basis, rank, support, basis.primes[1])
    if not born or lives(basis, born, support, proofs) is False:
        return False
    state.add_vector(born, int(basis.size[support].sum()), support)
    return True


def _descend(basis: Basis, state: Weak, ranks: list[int], budget: Budget, proofs: Budget, seed: int) -> None:
    """Searches for light vectors at the last rank and, by bisection, wherever the bound falls."""
    p, _ = basis.primes

    def look(rank: int) -> None:
        if state.lower[rank] >= state.upper[rank] or not budget.take(code_work(basis, rank)):
            return
        here = code(basis, rank, p)
        trials = 0
        while trials < TRIALS and budget.take(search_work(here)):
            trials += 1
        rng = np.random.Generator(np.random.Philox(key=[seed, rank]))
        places = search(here, int(state.upper[rank]), trials, rng) if trials else None
        if places is not None:
            _accept(basis, state, rank, here.support(places), proofs)

    def between(low: int, high: int) -> None:
        """Looks inside (ranks[low], ranks[high]) if the bounds at its ends differ."""
        if high - low < 2 or state.upper[ranks[low]] == state.upper[ranks[high]]:
            return
        middle = (low + high) // 2
        look(ranks[middle])
        between(middle, high)
        between(low, middle)

    look(ranks[-1])
    if len(ranks) > 1:
        look(ranks[0])
        between(0, len(ranks) - 1)


def _enumerate(
    basis: Basis, state: Weak, ranks: list[int], last: dict[int, int], budget: Budget, proofs: Budget
) -> None:
    """Proves lower bounds, from the last rank on: no vector on 1, 2, 3 ... places that is lighter than the upper."""

    def promising(rank: int) -> bool:
        """No light vector is known, nor enforced by the rank (Singleton's bound)."""
        size, count = basis.classes.smallest[last[rank]], basis.classes.count[last[rank]]
        return bool(state.upper[rank] > AIM * size and count - rank + 1 > AIM)

    # first the last rank where all affordable levels may pass: what that proves holds for all lower ranks
    first = max(filter(promising, ranks), default=ranks[-1])
    for rank in [first, *reversed(ranks)]:
        any(_exhaust(basis, state, rank, p, budget, proofs) for p in basis.primes)


def _exhaust(basis: Basis, state: Weak, rank: int, p: int, budget: Budget, proofs: Budget) -> bool:
    """Proves a lower bound at one rank with one prime; False if that proved less because of this prime.

    A vector of R is a codeword modulo p, of no more weight. So what no codeword weighs no vector does; but a codeword
    that is no vector of R (p divides what another vector has in a place) may stand for a heavier vector that is one:
    nothing is proven beyond its weight.
    """
    if state.lower[rank] >= state.upper[rank] or not budget.take(code_work(basis, rank)):
        return True
    here = code(basis, rank, p)
    smallest = np.append(0, np.cumsum(here.weight))  # least weight of a codeword on w places: the w lightest of them
    levels = _affordable_levels(here, int(state.lower[rank]), budget)
    if not levels or smallest[min(levels[-1] + 1, len(smallest) - 1)] <= state.lower[rank]:
        return True  # nothing to be gained
    shadow = int(state.upper[rank])

    def accept(places: NDArray[np.int64]) -> bool:
        nonlocal shadow
        if not here.dependent(places):
            return False
        if _accept(basis, state, rank, here.support(places), proofs):
            return True
        shadow = min(shadow, int(here.weight[places].sum()))
        return False

    def proven(fewest: int) -> None:
        """Notes that all codewords of less weight than so many clients have been met."""
        state.raise_lower(rank, min(int(state.upper[rank]), fewest, shadow))

    for w in levels:
        proven(int(smallest[w]))
        if state.lower[rank] >= state.upper[rank]:
            return True
        if shadow < state.upper[rank]:
            return False
        budget.take(level_work(len(here.weight), w))
        level(here, w, int(state.upper[rank]), accept)
    beyond = levels[-1] + 1
    proven(int(state.upper[rank] if beyond == len(smallest) else smallest[beyond]))
    return shadow >= state.upper[rank]


def _affordable_levels(here: LinearCode, lower: int, budget: Budget) -> list[int]:
    """The numbers of places to enumerate, ascending, as far as the budget allows for all of them.

    Levels whose heaviest places together weigh less than ``lower`` cannot hold a new vector and are left out.
    """
    largest = np.append(0, np.cumsum(here.weight[::-1]))
    levels, work = [], 0
    for w in range(1, len(here.weight) + 1):
        if largest[w] >= lower:
            work += level_work(len(here.weight), w)
            if not budget.affords(work * (10 if w > AIM else 1)):
                break
            levels.append(w)
    return levels
