"""The weak guarantee at several ranks: an interval around min { |v|_0 : 0 != v in R }.

The value never grows with the rank. So a proof that there is no light vector at one rank holds for all lower ranks, and
a light vector found at one rank counts from the rank on at which its last round comes in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.basis import Basis
from simfl.privacy.budget import Budget
from simfl.privacy.code import code, code_work
from simfl.privacy.lightest import level, level_work
from simfl.privacy.search import search, search_work
from simfl.privacy.witness import birth, lives

__all__ = ["Weak", "weak"]

TRIALS = 16
AIM = 5  # vectors on more places are enumerated only where that takes little of the budget


@dataclass
class Weak:
    """Bounds at ranks 1 .. R; index 0 is not used.

    Attributes:
        lower, upper: int64, shape (R + 1,), both non-increasing.
        source: for each rank where the vector of weight ``upper`` lives: classes, or the number of a round.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    source: list[NDArray[np.int64] | int]

    def found(self, rank: int, weight: int, source: NDArray[np.int64] | int) -> None:
        """Notes that a vector of this weight exists from ``rank`` on."""
        for r in range(rank, len(self.upper)):
            if weight < self.upper[r]:
                self.upper[r], self.source[r] = weight, source

    def proven(self, rank: int, weight: int) -> None:
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
    if not ranks:
        return state
    for rank in ranks:
        state.proven(rank, int(basis.classes.smallest[last[rank]]))
        state.proven(rank, int(np.ceil(known.get(rank, 0.0) - 1e-6)))
    for c in np.flatnonzero(basis.isolated):
        if basis.size[c] < state.upper[basis.isolated[c]]:
            state.found(int(basis.isolated[c]), int(basis.size[c]), np.array([c]))
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
            state.found(int(ranks[t]), int(least[t]), int(t))
    return state


def _accept(basis: Basis, state: Weak, rank: int, support: NDArray[np.int64], proofs: Budget) -> bool:
    """Takes a support found modulo one prime if it holds modulo the other and, within the budget, in fractions."""
    born = birth(basis, rank, support, basis.primes[1])
    if not born or lives(basis, born, support, proofs) is False:
        return False
    state.found(born, int(basis.size[support].sum()), support)
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
    smallest = np.append(0, np.cumsum(here.weight))
    largest = np.append(0, np.cumsum(here.weight[::-1]))
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
        state.proven(rank, min(int(state.upper[rank]), fewest, shadow))

    affordable, work = [], 0
    for w in range(1, len(here.weight) + 1):
        if largest[w] >= state.lower[rank]:
            work += level_work(len(here.weight), w)
            if not budget.affords(work * (10 if w > AIM else 1)):
                break
            affordable.append(w)
    if not affordable or smallest[min(affordable[-1] + 1, len(smallest) - 1)] <= state.lower[rank]:
        return True  # nothing to be gained
    for w in affordable:
        proven(int(smallest[w]))
        if state.lower[rank] >= state.upper[rank]:
            return True
        if shadow < state.upper[rank]:
            return False
        budget.take(level_work(len(here.weight), w))
        level(here, w, int(state.upper[rank]), accept)
    beyond = affordable[-1] + 1
    proven(int(state.upper[rank] if beyond == len(smallest) else smallest[beyond]))
    return shadow >= state.upper[rank]
