"""Who shares masks with whom: everybody with everybody, or with a few on a random circle.

Reference: Bell et al., "Secure single-server aggregation with (poly)logarithmic overhead", 2020 (SecAgg+).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import floor, log

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Circle:
    """Clients at the positions 0 ... n-1 around a circle; neighbours are at most ``reach`` seats apart.

    Attributes:
        order: the position in each seat, (n,).
        seat: the seat of each position, (n,).
        reach: seats; with n // 2 everybody is everybody's neighbour.
    """

    order: NDArray[np.int64]
    seat: NDArray[np.int64]
    reach: int

    @property
    def degree(self) -> int:
        """Neighbours of each."""
        return min(2 * self.reach, len(self.order) - 1)

    def of(self, position: int) -> NDArray[np.int64]:
        """The neighbours of one, ascending."""
        n = len(self.order)
        if self.degree == n - 1:
            return np.delete(np.arange(n), position)
        steps = np.arange(1, self.reach + 1)
        return np.sort(self.order[(self.seat[position] + np.concatenate([steps, -steps])) % n])

    def counts(self, members: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many members are neighbours of each, (n,)."""
        n = len(self.order)
        if self.degree == n - 1:
            return int(members.sum()) - members.astype(np.int64)
        ring = members[self.order].astype(np.int64)
        far = np.concatenate([ring[n - self.reach :], ring, ring[: self.reach]])
        sums = np.concatenate([[0], np.cumsum(far)])
        return (sums[2 * self.reach + 1 :] - sums[:n] - ring)[self.seat]

    def is_connected(self, members: NDArray[np.bool_]) -> bool:
        """Whether members reach one another through members; the sums of separate groups would show otherwise."""
        return int(self.groups(members).max(initial=-1)) == 0

    def groups(self, members: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The group of each member, (n,), who reach one another through members, numbered from 0; -1 = no member."""
        n, places = len(self.order), np.full(len(self.order), -1)
        if len(seats := np.flatnonzero(members[self.order])):
            gaps = np.diff(seats, append=seats[0] + n) > self.reach
            places[self.order[seats]] = (np.cumsum(gaps) - gaps) % max(1, gaps.sum())
        return places

    def cut(self, members: NDArray[np.bool_]) -> int:
        """The fewest members without whom the others are no longer connected; n or more where nothing separates them.

        They are cut at two places, by all members in ``reach`` seats after one who stays.
        """
        n, reach = len(self.order), self.reach
        if self.degree == n - 1:
            return n
        from scipy.ndimage import minimum_filter1d

        ring = members[self.order].astype(np.int64)
        sums = np.concatenate([[0], np.cumsum(np.concatenate([ring, ring[:reach]]))])
        cost = np.where(ring > 0, sums[reach + 1 :] - sums[1 : n + 1], n)
        width = n - 2 * reach - 1  # seats that are no neighbours of one
        least = minimum_filter1d(cost, width, mode="wrap")
        return int((cost + np.roll(least, -(reach + 1 + width // 2))).min())


def circle(n: int, k: int, rng: np.random.Generator) -> Circle:
    """Everybody in random order, each with the k/2 nearest on either side; with all, if k >= n - 1."""
    order = rng.permutation(n)
    return Circle(order, np.argsort(order), n // 2 if k >= n - 1 else k // 2)


@lru_cache(maxsize=256)
def degree_and_threshold(
    n: int, corrupted: float, dropped: float, security_bits: float, correctness_bits: float
) -> tuple[int, int] | None:
    """The least even number of neighbours k, and with it the least threshold t, that fail negligibly often: (k, t).

    With C clients corrupted and D dropped, at random places of the circle: n P[C of k >= t] <= 2^-security, survivors
    stay connected but for 2^-security, and n P[survivors among k < t] <= 2^-correctness. None: no k below n - 1 is
    enough.
    """
    from scipy.stats import hypergeom

    bad, alive = floor(corrupted * n + 1e-9), n - floor(dropped * n + 1e-9)
    neither = bad + n - alive
    for k in range(2, n - 1, 2):
        half = np.arange(k // 2)
        gaps = np.maximum((neither - half) / (n - half), 0.0)
        with np.errstate(divide="ignore"):
            split = log(n) + float(np.log(gaps).sum())
        if split > -security_bits * log(2):
            continue
        t = np.arange(1, k + 1)
        known = n * hypergeom.sf(t - 1, n - 1, bad, k) <= 2.0**-security_bits
        enough = n * hypergeom.cdf(t - 1, n - 1, alive - 1, k) <= 2.0**-correctness_bits
        if (known & enough).any():
            return k, int(t[np.argmax(known)])
    return None
