"""A participation matrix in compressed rows, checked, with its weights as exact numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.privacy.multiround.weight_reading import LARGEST, Values


@dataclass(frozen=True)
class ParticipationMatrix:
    """Who was aggregated in which round, with which weight.

    Attributes:
        indptr: int64, shape (J + 1,); round t holds positions ``indptr[t]:indptr[t + 1]``.
        clients: int64, shape (n,): the clients of each round, ascending.
        codes: int32, shape (n,): numbers of their weights in ``values``, never 0.
    """

    indptr: NDArray[np.int64]
    clients: NDArray[np.int64]
    codes: NDArray[np.int32]
    values: Values
    shape: tuple[int, int]

    @classmethod
    def of(cls, P: Any, doubles: bool = False) -> "ParticipationMatrix":
        """From a (J, N) array of non-negative weights, dense or scipy-sparse; ``doubles`` as in ``multi_round``.

        Raises:
            SimflError: not two-dimensional, not numbers, negative, infinite or NaN, or numbers that doubles cannot tell
                from others: whole numbers above 2^53 - 1, and some of longer types.
        """
        if hasattr(P, "tocsr"):
            P = P.tocsr()
            if not P.has_canonical_format:
                P = P.copy()
                P.sum_duplicates()
            indptr, clients, weights, shape = P.indptr, P.indices, P.data, P.shape
        else:
            P = np.asarray(P)
            if P.ndim != 2:
                raise SimflError(f"a participation matrix has two dimensions (rounds, clients), not {P.ndim}")
            rows, clients = np.nonzero(P)
            weights, shape = P[rows, clients], P.shape
            indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
        if weights.dtype.kind not in "biuf":
            raise SimflError(f"participation weights must be real numbers, not {weights.dtype}")
        bits = {2: 11, 4: 24}.get(weights.dtype.itemsize, 53) if weights.dtype.kind == "f" else 53
        _check(indptr, clients, weights)
        weights = weights.astype(np.float64)
        if not np.all(weights):
            positive = weights > 0
            indptr = np.append(0, np.cumsum(positive))[indptr]
            clients, weights = clients[positive], weights[positive]
        values, codes = Values.of(weights, indptr, None if doubles else bits)
        return cls(indptr.astype(np.int64), clients.astype(np.int64), codes, values, (int(shape[0]), int(shape[1])))

    @cached_property
    def sure(self) -> NDArray[np.bool_]:
        """Whether each round is certain to mean what it was read as, but for a common factor; shape (J,).

        A round of one weight for all is, whatever the weight (if enough digits of it are known), and one of one client.
        """
        sure = np.ones(self.shape[0], dtype=bool)
        doubtful = np.flatnonzero(~self.values.sure[self.codes])
        for t in np.unique(np.searchsorted(self.indptr, doubtful, side="right") - 1).tolist():
            row = self.codes[self.indptr[t] : self.indptr[t + 1]]
            sure[t] = len(row) == 1 or bool(np.all(row == row[0]) and not self.values.rough[row[0]])
        return sure

    @property
    def rough(self) -> NDArray[np.bool_]:
        """Whether any round so far has weights of too few digits to tell them apart, shape (J,)."""
        counts = np.append(0, np.cumsum(self.values.rough[self.codes]))
        return counts[self.indptr[1:]] > 0

    @cached_property
    def first_unsure(self) -> int:
        """The first round that is not sure, J if all are."""
        return int(np.argmin(np.append(self.sure, False)))

    def certain(self) -> "ParticipationMatrix":
        """The same rounds without those that are not sure, which become empty."""
        return self.only(self.sure)

    def only(self, some: NDArray[np.bool_]) -> "ParticipationMatrix":
        """The same rounds without all but some, (J,), which become empty."""
        entries = np.repeat(some, np.diff(self.indptr))
        indptr = np.append(0, np.cumsum(np.where(some, np.diff(self.indptr), 0)))
        return replace(self, indptr=indptr, clients=self.clients[entries], codes=self.codes[entries])

    def with_rough_weights(self) -> NDArray[np.bool_]:
        """The clients some of whose weights have too few digits to tell them apart, shape (N,)."""
        rough = np.zeros(self.shape[1], dtype=bool)
        rough[self.clients[self.values.rough[self.codes]]] = True
        return rough

    def fewest_clients(self) -> NDArray[np.int64]:
        """The fewest clients of any round so far, N + 1 before there is one; shape (J,)."""
        counts = np.diff(self.indptr)
        return np.minimum.accumulate(np.where(counts > 0, counts, self.shape[1] + 1))

    def ratios(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The least ratio of sum to largest weight of one round, among the rounds so far, and whose it is; (J,)."""
        weights = self.values.floats[self.codes]
        filled = np.flatnonzero(np.diff(self.indptr))
        ratio = np.full(self.shape[0], np.inf)
        if len(filled):
            start = self.indptr[filled]
            peaks = np.maximum.reduceat(weights, start)
            ratio[filled] = np.add.reduceat(weights / np.repeat(peaks, np.diff(self.indptr)[filled]), start)
        least = np.minimum.accumulate(ratio)
        new = np.append(True, least[1:] < least[:-1])
        return least, np.maximum.accumulate(np.where(new, np.arange(len(ratio)), 0))

    def dense(self, rounds: NDArray[np.integer]) -> NDArray[np.int32]:
        """The weights' numbers of some rounds as a matrix, shape (len(rounds), N)."""
        table = np.zeros((len(rounds), self.shape[1]), dtype=np.int32)
        for row, t in zip(table, rounds, strict=True):
            span = slice(self.indptr[t], self.indptr[t + 1])
            row[self.clients[span]] = self.codes[span]
        return table


def _check(indptr: NDArray[np.integer], clients: NDArray[np.integer], weights: NDArray[Any]) -> None:
    """
    Raises:
        SimflError: a weight is negative or not finite, or a double cannot hold it.
    """
    for bad, why in (
        (~(np.isfinite(weights) & (weights >= 0)), "is not a finite number of at least 0"),
        (_beyond_doubles(weights), f"cannot be told from others as a double; whole numbers are valid up to {LARGEST}"),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            t = int(np.searchsorted(indptr, first, side="right")) - 1
            raise SimflError(f"round {t}, client {clients[first]}: weight {weights[first]:g} {why}")


def _beyond_doubles(weights: NDArray[Any]) -> NDArray[np.bool_]:
    """Which weights a conversion to doubles would make equal to others: large whole numbers, and long doubles of which
    others become the same."""
    if weights.dtype.kind in "iu":
        return weights > LARGEST
    if weights.dtype.itemsize <= 8:
        return np.zeros(len(weights), dtype=bool)
    distinct = np.unique(weights)
    doubles = distinct.astype(np.float64)
    return np.isin(weights, distinct[1:][doubles[1:] == doubles[:-1]])


def of_others(P: Any, clients: Sequence[int]) -> Any:
    """Sums as they look to clients who know their own parts of them, CSR (rows, clients)."""
    P = P.tocsr(copy=True)
    P.data[np.isin(P.indices, clients)] = 0
    P.eliminate_zeros()
    return P


def with_samples(P: object, samples: NDArray[np.integer]) -> Any:
    """The participation matrix, CSR (J, N), in units of single updates, where a sum weights each by its client's
    samples.

    With ``weighting: samples`` a sum is sum s(i) n_i update(i). A row of ``P``, (J, N), that holds only s(i) speaks of
    the clients' own products n_i update(i). The rank, the weak guarantee and who is exposed are the same for both,
    since n_i > 0 scales a column; how much a client weighs in a combination (semi-strong), and which columns are
    identical (strong), is not.
    """
    from scipy.sparse import csr_array

    weighted = csr_array(P, dtype=np.float64, copy=True)
    weighted.data *= np.asarray(samples, dtype=np.float64)[weighted.indices]
    return weighted


@dataclass(frozen=True)
class Classes:
    """The partition of the clients seen so far into classes of identical columns (MR App. C), after every round.

    Attributes:
        label: int64, shape (N,): class of each client after the last round, -1 where it was never seen.
        size: int64, shape (M,): clients in each class after the last round.
        count: int64, shape (J,): number of classes after each round.
        smallest: int64, shape (J,): size of the smallest class after each round; N + 1 before there is one.
    """

    label: NDArray[np.int64]
    size: NDArray[np.int64]
    count: NDArray[np.int64]
    smallest: NDArray[np.int64]


def strong_guarantee(P: object, doubles: bool = False) -> int:
    """The size of the smallest class of a participation matrix, dense or sparse (J, N); N + 1 without an aggregate."""
    rounds = ParticipationMatrix.of(P, doubles)
    return int(identical(rounds).smallest[-1])


def identical(rounds: ParticipationMatrix) -> Classes:
    """Splits classes by what each round gives their members; class 0 holds the clients not seen yet."""
    n_rounds, n_clients = rounds.shape
    label = np.zeros(n_clients, dtype=np.int64)
    size = np.zeros(n_clients + 1, dtype=np.int64)
    size[0] = n_clients
    count = np.zeros(n_rounds, dtype=np.int64)
    smallest = np.full(n_rounds, n_clients + 1, dtype=np.int64)
    weights = len(rounds.values.floats)
    last, least = 0, n_clients + 1  # highest label in use; a class only ever splits, so the least size only falls
    for t in range(n_rounds):
        span = slice(rounds.indptr[t], rounds.indptr[t + 1])
        clients = rounds.clients[span]
        if len(clients):
            keys = label[clients] * weights + rounds.codes[span]
            keys, place, members = np.unique(keys, return_inverse=True, return_counts=True)
            old, start = np.unique(keys // weights, return_index=True)
            left = size[old] - np.add.reduceat(members, start)
            known = old > 0
            whole = known & (left == 0)  # a class that is touched whole lends its number to its first part
            new = np.zeros(len(keys), dtype=np.int64)
            new[start[whole]] = old[whole]
            fresh = np.flatnonzero(new == 0)
            new[fresh] = np.arange(last + 1, last + 1 + len(fresh))
            last += len(fresh)
            size[old] = left
            size[new] = members
            label[clients] = new[place]
            least = min(least, int(members.min()), int(left[known & ~whole].min(initial=least)))
        count[t], smallest[t] = last, least
    return Classes(label - 1, size[1 : last + 1].copy(), count, smallest)


def without_clients(matrix: ParticipationMatrix, colluding: NDArray[np.integer]) -> ParticipationMatrix:
    """The sums after the colluders' own updates have been taken off: the columns of the others, in their order.

    Weights mean what they were read as beside all columns.
    """
    stays = np.ones(matrix.shape[1], dtype=bool)
    stays[colluding] = False
    of_others = stays[matrix.clients]
    place = np.cumsum(stays) - 1
    return replace(
        matrix,
        indptr=np.append(0, np.cumsum(of_others))[matrix.indptr],
        clients=place[matrix.clients[of_others]],
        codes=matrix.codes[of_others],
        shape=(matrix.shape[0], int(stays.sum())),
    )
