"""What one observer received over a run: the one value from which certificates of sums and of noise are computed.

An observer is the server, a client that aggregates, or whoever sees the models only; a coalition's view has the rows
that its members can make together of what they received and know. Nothing here knows that there is one server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

UNCOUNTED = "messages that nobody counts"


class Clear(NamedTuple):
    """A part of what clients send that reaches the observer as it is.

    Attributes:
        part: its name.
        noised: it is made of updates after their own noise, as codes are; noise that protects covers it.
    """

    part: str
    noised: bool


class NoiseTerm(NamedTuple):
    """Noise in what is received.

    Attributes:
        stage: that adds it.
        where: ``client``, ``share`` or ``server``; who draws it knows it.
        std: of each round in the unit of the stage's own facts, (rounds,), NaN where none is said.
        address: what its draws are addressed by: a job, or an aggregation.
    """

    stage: str
    where: str
    std: NDArray[np.float64]
    address: Literal["job", "aggregation"]


class Event(NamedTuple):
    """A session, or updates in none.

    Attributes:
        round: for whose aggregation it was.
        clients: int32 (n,): whose updates were sent, as often as they were, as the observer received them: masked, or
            as they are.
        summed: bool (n,): which are in its sum, or were to be.
        ended: there is a sum.
    """

    round: int
    clients: NDArray[np.int32]
    summed: NDArray[np.bool_]
    ended: bool


@dataclass(frozen=True)
class ObserverView:
    """All that one observer received.

    Attributes:
        observer: ``server``, ``client/12``, ``models``; several joined by ``+``.
        rounds: how many there were.
        rows: linear combinations of clients' updates that it has, with the weights that were used, CSR (rows, clients).
        round: of each row, ascending, int64 (rows,).
        each: it has each update that is in a row by itself, too.
        same: of a client whose update stays the same, every row holds the same vector.
        clear: parts that it has as they are.
        opaque: what else tells everything of clients, in words.
        tolerated: further colluders who learn no more from any session of each round, float64 (rounds,); -1 = the
            observer itself may know more.
        alone: how many updates of each client it has that are in no row, CSR (rounds, clients); None = nobody counts.
        noise: what is in it.
        events: what happened, where that was asked for.
        by_samples: what is in a row of a client is multiplied with the number of its samples besides.
    """

    observer: str
    rounds: int
    rows: Any
    round: NDArray[np.int64]
    each: bool
    same: bool
    clear: tuple[Clear, ...]
    opaque: tuple[str, ...]
    tolerated: NDArray[np.float64]
    alone: Any
    noise: tuple[NoiseTerm, ...] = ()
    events: tuple[Event, ...] = ()
    by_samples: bool = False

    @classmethod
    def of_sums(cls, P: Any, observer: str = "server") -> Self:
        """Of whoever sees a sum a round and nothing else, whoever colludes, by a participation matrix."""
        from scipy.sparse import csr_array

        rounds, nothing = P.shape[0], csr_array(P.shape)
        return cls(observer, rounds, P, np.arange(rounds), False, True, (), (), np.full(rounds, np.inf), nothing)

    @classmethod
    def of_runs(cls, views: Sequence[Self]) -> Self:
        """Of who has been the same observer in several runs of the same clients, one after another: the fewest clients
        are a part of the most, by number. Where a row says something else of samples, no vector is the same.
        """
        from scipy.sparse import csr_array, vstack

        wide, first = max(view.rows.shape[1] for view in views), views[0]
        starts = np.cumsum([0, *(view.rounds for view in views)])

        def one_below_another(parts: Any) -> Any:
            wider = [csr_array((part.data, part.indices, part.indptr), (part.shape[0], wide)) for part in parts]
            return vstack(wider).tocsr()

        def of_any(each: str) -> tuple[Any, ...]:
            return tuple(dict.fromkeys(part for view in views for part in getattr(view, each)))

        same = all(view.same and view.by_samples == first.by_samples for view in views)
        counted = all(view.alone is not None for view in views)
        round = np.concatenate([start + view.round for start, view in zip(starts, views, strict=False)])
        return cls(
            first.observer, int(starts[-1]), one_below_another([view.rows for view in views]), round,
            any(view.each for view in views), same, of_any("clear"), of_any("opaque"),
            np.concatenate([view.tolerated for view in views]),
            one_below_another([view.alone for view in views]) if counted else None, by_samples=first.by_samples,
        )  # fmt: skip

    @property
    def by_round(self) -> Any:
        """Of each client what it counts in a round, CSR (rounds, clients), where it is in one row of that at most."""
        from scipy.sparse import csr_array

        if np.array_equal(self.round, np.arange(self.rounds)):
            return self.rows
        ones, at = np.ones(len(self.round), dtype=self.rows.dtype), np.arange(len(self.round))
        return csr_array((ones, (self.round, at)), shape=(self.rounds, len(self.round))) @ self.rows

    @property
    def open(self) -> bool:
        """Whether sums hide nobody: more than sums is seen of every client."""
        return self.each or bool(self.clear or self.opaque)

    @property
    def uncovered(self) -> bool:
        """Whether parts are seen that no noise covers, or nobody says what is seen."""
        return UNCOUNTED in self.opaque or any(not clear.noised for clear in self.clear)
