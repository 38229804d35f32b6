"""What reached a server in one session, and the sums of it that can be known."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = Any
"""Linear combinations of updates, scipy CSR (rows, n): by how much each position's weighted update is multiplied."""


class Transcript(NamedTuple):
    """All that is known of whom a server heard in a session, whether the session ended well or not.

    Attributes:
        round: of the aggregation; with it the protocol's draws are addressed.
        clients: at the positions, int32 (n,), in the protocol's order.
        shared, sent, summed, answered: bool (n,): whose masks may be in others' messages; whose update was sent, in
            time or not; whose are those that the sum is of, or was to be of; who answered after the upload, or lived to.
        ended: there is a sum.
        answers: how many have answered after the upload, or lived to, others than these too.
        population: clients of the scenario.
    """

    round: int
    clients: NDArray[np.int32]
    shared: NDArray[np.bool_]
    sent: NDArray[np.bool_]
    summed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    ended: bool
    answers: int
    population: int

    def honest(self, coalition: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which positions are of nobody in the coalition, bool (n,)."""
        return ~np.isin(self.clients, coalition)

    def each(self, coalition: NDArray[np.int32]) -> Rows:
        """Every update that was sent by itself: the worst."""
        return rows_of(np.where(self.sent & self.honest(coalition), np.arange(len(self.clients)), -1))

    def sum(self, coalition: NDArray[np.int32]) -> Rows:
        """The one sum, less the coalition's updates."""
        return rows_of(np.where(self.summed & self.honest(coalition), 0, -1))

    def none(self) -> Rows:
        """No combination."""
        return rows_of(np.full(len(self.clients), -1))

    def unless_missing(self, coalition: NDArray[np.int32]) -> Rows:
        """The sum of all that was sent, where masks go away by themselves: unless one that others share is missing."""
        honest = self.honest(coalition)
        missing = (self.shared & ~self.sent & honest).any()
        return self.none() if missing else rows_of(np.where(self.sent & honest, 0, -1))


def rows_of(groups: NDArray[np.int64]) -> Rows:
    """A row of ones for each group of positions, numbered (n,); those of -1 are in none."""
    from scipy.sparse import csr_array

    members = np.flatnonzero(groups >= 0)
    row = np.unique(groups[members], return_inverse=True)[1]
    return csr_array((np.ones(len(members)), (row, members)), shape=(int(row.max(initial=-1)) + 1, len(groups)))
