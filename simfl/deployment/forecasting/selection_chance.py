"""How likely a policy's selections are if certain units are available: what a log says of those that it does not show.

A unit is what is available or not as a whole: a client, a batch, a half-batch. m units (pairs of neighbouring
half-batches) are selected where so many are available, else nobody. Those that are selected and fail are in no sum.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from simfl.plugins import Bools, Floats, Integers

NEVER = -1e9
"""The logarithm of the probability of what cannot be."""
OUTAGE = 1e-6
"""Probability of a round without a sum for other reasons."""


@dataclass(frozen=True)
class Selections:
    """The selections of some rounds.

    Attributes:
        rows: units in each sum, bool (J, M).
        used: sums that each unit was in before, (J, M).
        need: units, or pairs of them, that are selected, (J,); 0 = all that are available.
        mode: of the policy: ``uniform``, ``fair`` or ``least_total``; ``all`` = everybody who is available.
        circle: pairs of neighbours on the circle of all units are selected.
        failing: probability that a selected unit is not in the sum.
    """

    rows: Bools
    used: Integers
    need: Integers
    mode: str
    circle: bool
    failing: float

    def at(self, places: slice) -> "Selections":
        """Those of some of the rounds."""
        return replace(self, rows=self.rows[places], used=self.used[places], need=self.need[places])

    @property
    def single(self) -> bool:
        """One pair makes a sum, so that no sum shows how often pairs fail; of other units that is taken for absence."""
        return self.circle and bool((self.need == 1).all())

    @cached_property
    def barred(self) -> Bools:
        """Units that cannot have been available, as the policy would have selected them, bool (J, M)."""
        if self.mode == "uniform" or self.circle or self.failing:
            return np.zeros_like(self.rows)
        least = np.where(self.rows, self.used, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        most = np.where(self.rows, self.used, -1).max(axis=1, keepdims=True)
        bound = least if self.mode == "fair" else most
        return ~self.rows & (self.used < bound) & self.rows.any(axis=1, keepdims=True)

    def start(self, rng: np.random.Generator) -> Bools:
        """Units whose availability makes all selections possible, about half of those that may be, (J, M)."""
        some = self.rows | (~self.barred & (rng.random(self.rows.shape) < 0.5))
        summed: Bools = np.asarray(self.rows.any(axis=1))
        if self.circle:
            whole = np.greater_equal(self.rows.sum(axis=1), 2 * self.need)
            least: Bools = np.where(whole[:, None] | ~summed[:, None], self.rows, True)
        else:
            order = np.argsort(np.where(self.rows, -1, self.used), axis=1, kind="stable")
            first: Bools = np.argsort(order, axis=1) < self.need[:, None]
            least = self.rows | (first & summed[:, None])
        return np.where(((self.log_chance(some) > NEVER / 2) & summed)[:, None], some, least)

    def log_chance(self, there: Bools) -> Floats:
        """Log-probability of each row, up to a constant, if these units are available, (J,)."""
        possible, chance = self._circle(there) if self.circle else self._blocks(there)
        summed = self.rows.any(axis=1)
        empty = np.where(possible, self.need * np.log(max(self.failing, OUTAGE ** (1 / max(1, self.need.max())))), 0.0)
        return np.where(summed, np.where(possible, chance, NEVER), empty)

    def _blocks(self, there: Bools) -> tuple[Bools, Floats]:
        """Whether enough are available, and the log-probability of each row if they are."""
        m, n, r = self.need, there.sum(axis=1), self.rows.sum(axis=1)
        if self.mode == "uniform":
            return n >= m, log_choices(n - r, m - r) - log_choices(n, m)
        used = np.where(there, self.used, np.iinfo(np.int64).max)
        if self.mode == "fair":
            tied = used == used.min(axis=1, keepdims=True)
            tied &= there
            ties, seen_ties = tied.sum(axis=1), (tied & self.rows).sum(axis=1)
            all_of = np.exp(log_choices(n - r, m - r) - log_choices(n - 1, m - 1))
            missing = np.exp(log_choices(n - r - 1, m - r - 1) - log_choices(n - 1, m - 1))
            with np.errstate(divide="ignore", invalid="ignore"):
                return n >= m, np.fmax(np.log((seen_ties * all_of + (ties - seen_ties) * missing) / ties), NEVER)
        cost = np.sort(used, axis=1)[np.arange(len(m)), np.clip(m - 1, 0, None)][:, None]
        tied, below = (used == cost) & there, (used < cost).sum(axis=1)
        ties, seen_ties = tied.sum(axis=1), (tied & self.rows).sum(axis=1)
        chance = log_choices(ties - seen_ties, m - below - seen_ties) - log_choices(ties, m - below)
        return n >= m, np.where((self.rows & (self.used > cost)).any(axis=1), -np.inf, chance)

    def _circle(self, there: Bools) -> tuple[Bools, Floats]:
        """The same of pairs of neighbours; ``fair`` has first one of the least-used units that a pair can hold."""
        m, r = self.need, self.rows.sum(axis=1) // 2
        t = first = np.zeros(0, dtype=np.intp)
        if self.mode == "fair":
            around = np.arange(-1, there.shape[1] + 1) % there.shape[1]
            near = there[:, around]
            cover = there & (near[:, :-2] | near[:, 2:])
            used = np.where(cover, self.used, np.iinfo(np.int64).max)
            t, first = np.nonzero(cover & (used == used.min(axis=1, keepdims=True)))
        # choices of pairs of all available units, and of those in no sum; without each unit that may be first
        unseen, rest = there & ~self.rows, np.where(r > 0, m - r, 0)
        among = np.concatenate([there, there[t], unseen, unseen[t]])
        left = len(m) + np.arange(len(t))
        among[left, first] = among[left + len(t) + len(m), first] = False
        pairs = np.concatenate([m, m[t], rest, rest[t]])
        chosen = pairings(among, int(pairs.max(initial=0)))[pairs, np.arange(len(pairs))]
        every, without, seen, seen_without = np.split(chosen, np.cumsum([len(m), len(t), len(m)]))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = seen / every
            if self.mode == "fair":
                holding = (seen[t] - ~self.rows[t, first] * seen_without) / (every[t] - without)
                share = np.bincount(t, np.nan_to_num(holding), len(m)) / np.bincount(t, minlength=len(m))
            return every > 0, np.fmax(np.log(share), NEVER)


def pairings(there: Bools, most: int) -> Floats:
    """Ways to choose 0, 1, ... ``most`` disjoint pairs of available neighbours on a circle of units, (most + 1, J)."""
    rounds, units = there.shape
    if not most:
        return np.ones((1, rounds))
    both = np.concatenate([there, there])  # without the pair that closes the circle, and with it
    both[rounds:, [0, -1]] = False
    joined = np.ascontiguousarray((both[:, 1:] & both[:, :-1]).T.astype(float))
    before, now = np.zeros((2, most + 1, 2 * rounds))
    more = np.empty((most, 2 * rounds))
    before[0] = now[0] = 1
    for pair in joined:
        np.multiply(before[:-1], pair, out=more)
        np.add(now[1:], more, out=before[1:])
        before, now = now, before
    counts = now[:, :rounds].copy()
    if units > 2:
        counts[1:] += now[:-1, rounds:] * (there[:, 0] & there[:, -1])
    return counts


def log_choices(n: NDArray[np.integer], k: NDArray[np.integer]) -> Floats:
    """The logarithm of n choose k, very low where k is no number from 0 to n."""
    valid = (k >= 0) & (k <= n)
    n, k = np.where(valid, n, 0), np.where(valid, k, 0)
    table = _log_factorials(int(n.max(initial=0)).bit_length())
    return np.where(valid, table[n] - table[k] - table[n - k], NEVER)


@cache
def _log_factorials(bits: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2**bits)))])
