"""What reached a server in one session, and the sums of it that can be known.

The proofs of the protocols' views are in docs/explanation/proofs/views.md.
"""

from typing import Any, NamedTuple, Self

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
            time or not; whose the sum is of, or was to be of; who answered after the upload, or lived to do so.
        ended: there is a sum.
        response_count: how many have answered after the upload, or lived to, others than these too.
        population: clients of the scenario.
    """

    round: int
    clients: NDArray[np.int32]
    shared: NDArray[np.bool_]
    sent: NDArray[np.bool_]
    summed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    ended: bool
    response_count: int
    population: int

    @classmethod
    def of(
        cls, round: int, clients: list[int], population: int, summed: bool, response_count: int | None = None
    ) -> Self:
        """Of updates that were all sent; all in the sum, or meant for one that so many answers did not open."""
        all_of, inside = np.ones(len(clients), dtype=bool), np.full(len(clients), summed)
        ended, whom = summed and response_count is None, np.array(clients, dtype=np.int32)
        return cls(round, whom, all_of, all_of, inside, inside & ended, ended, response_count or 0, population)

    def after(self, in_sum: NDArray[np.bool_] | None, responders: NDArray[np.int32] | None) -> Self:
        """The same after the upload.

        Args:
            in_sum: the positions that are in the sum, (n,); None = there is none.
            responders: the clients who have answered, or lived to; None = nobody was asked.
        """
        summed, ended = self.summed if in_sum is None else in_sum, in_sum is not None and bool(in_sum.any())
        answered = summed & ended if responders is None else np.isin(self.clients, responders)
        count = 0 if responders is None else len(responders)
        return self._replace(summed=summed, answered=answered, ended=ended, response_count=count)

    def only(self, some: NDArray[np.bool_]) -> Self:
        """Some of the positions, (n,), by ascending client; where a protocol's order does not matter."""
        return self.only_at(np.flatnonzero(some)[np.argsort(self.clients[some], kind="stable")])

    def only_at(self, places: NDArray[np.int64]) -> Self:
        """Some of the positions, in this order."""
        return self._replace(**{name: getattr(self, name)[places] for name in self._fields[1:6]})

    def says_more(self, clients: NDArray[np.int32]) -> bool:
        """Whether it says more than that the updates of these clients, (n,), are in its sum."""
        full = self.ended and np.array_equal(self.clients, clients) and np.stack(self[2:6]).all()
        return bool(self.sent.any()) and not full

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
