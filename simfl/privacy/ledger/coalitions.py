"""What coalitions of a given size learn: lower bounds, each attained by a coalition, and what none can exceed.

A coalition knows its own updates, so that they are no unknowns any more. Write the covariance of the estimate with a
prior of variance 1/d on every update as H = N/d + S, with d towards 0: N is the projector onto what is hidden. To fix
update j is one step of elimination, H - H_j H_j' / H_jj, which is done here for both orders of d.

For a coalition C, the squared signal to noise of client i is the least of |A x|^2 over x with x_i = 1 that are 0 in C.
Every such x is therefore an upper bound for those coalitions that miss its support. Of more than c vectors x whose
supports share only i, a coalition of c clients misses at least one, so that the (c + 1)-th smallest value bounds them
all.
"""

from typing import NamedTuple

import numpy as np

from simfl.core.types import Bools, Floats, Integers

TOLERANCE = 1e-9
"""Below it a length that is at most 1 counts as 0."""


class Information:
    """Row space and precision of observed sums A X + noise of unit variance, or of none.

    ``basis`` holds orthonormal rows that span the row space. A sum with noise adds its coordinates in that basis to the
    triangular factor T of the precision T'T, by a QR update (LAPACK tpqrt) of O(rank^2); sums without noise are linear
    constraints and are kept apart.
    """

    def __init__(self, clients: int) -> None:
        self._basis = np.zeros((min(16, clients), clients))
        self.rank = 0
        self._factor = np.zeros((0, 0))
        self._exact: list[Floats] = []
        self.noised = 0

    @property
    def basis(self) -> Floats:
        """Orthonormal rows that span all sums, shape (rank, N)."""
        return self._basis[: self.rank]

    def add(self, row: Floats, mu: float, rises: bool) -> None:
        """One more sum.

        Args:
            row: the weights of the clients, shape (N,), not all 0.
            mu: what an update of weight 1 counts in units of the noise; infinite without noise.
            rises: whether the sum is no combination of those before.
        """
        scale = float(row.max())
        row = row / scale
        coordinates = self.basis @ row
        if rises:
            rest = row - coordinates @ self.basis
            again = self.basis @ rest
            rest -= again @ self.basis  # twice is enough
            length = float(np.sqrt(rest @ rest))
            self._append(rest / length)
            coordinates = np.append(coordinates + again, length)
        if np.isinf(mu):
            self._exact.append(coordinates)
        elif mu > 0:
            self._update(coordinates * (mu * scale))

    def _append(self, direction: Floats) -> None:
        if self.rank == len(self._basis):
            wider = np.zeros((min(2 * self.rank, self._basis.shape[1]), self._basis.shape[1]))
            wider[: self.rank] = self._basis
            self._basis = wider
        self._basis[self.rank] = direction
        self.rank += 1

    def _update(self, coordinates: Floats) -> None:
        from scipy.linalg.lapack import dtpqrt

        self.noised += 1
        grown = np.zeros((self.rank, self.rank), order="F")
        known = len(self._factor)
        grown[:known, :known] = self._factor
        self._factor = np.triu(dtpqrt(0, min(32, self.rank), grown, coordinates[None])[0])

    def noised_columns(self) -> Floats:
        """B of shape (rank, N) with B'B = A'A for the sums with noise."""
        known = len(self._factor)
        return self._factor @ self._basis[:known]

    def hidden(self) -> Floats:
        """The projector onto the combinations of updates that no sum tells anything of, shape (N, N)."""
        return np.eye(self._basis.shape[1]) - self.basis.T @ self.basis

    def error_root(self) -> Floats:
        """Y with one column a client, such that Y'Y is the covariance of the estimate of what is not hidden, (m, N)."""
        from scipy.linalg import solve_triangular

        if not self.noised:
            return np.zeros((0, self._basis.shape[1]))
        if not self._exact and len(self._factor) == self.rank:
            return solve_triangular(self._factor, self.basis, trans="T")
        free = self._open_coordinates()
        factor = np.zeros((len(self._factor), self.rank))
        factor[:, : len(self._factor)] = self._factor
        triangle = np.linalg.qr(factor @ free, mode="r")
        open_ = free.T @ self.basis
        open_[:, np.square(open_).sum(axis=0) < TOLERANCE**2] = 0.0  # known from the sums without noise
        return solve_triangular(triangle, open_, trans="T")

    def _open_coordinates(self) -> Floats:
        """A basis of the coordinates that the sums without noise leave open, shape (rank, m)."""
        exact = np.zeros((max(len(self._exact), 1), self.rank))
        for row, known in zip(exact, self._exact, strict=False):
            row[: len(known)] = known
        _, singular, right = np.linalg.svd(exact)
        return right[np.count_nonzero(singular > TOLERANCE * max(1.0, singular[0])) :].T


class Errors(NamedTuple):
    """What remains unknown of the updates.

    Attributes:
        hidden: the part of infinite variance, a projector at first, shape (N, N).
        covariance: the part of finite variance, shape (N, N); 0 where there is no noise.
        least: half the variance if all others are known, shape (N,): what has less is known itself.
    """

    hidden: Floats
    covariance: Floats
    least: Floats

    def without(self, j: int) -> "Errors":
        """The same if update j is known."""
        n, s, a, b = self.hidden[j], self.covariance[j], self.hidden[j, j], self.covariance[j, j]
        if a > TOLERANCE:
            cross = np.outer(s, n / a)
            return Errors(self.hidden - np.outer(n, n / a),
                          self.covariance - cross - cross.T + np.outer(n, n * (b / a**2)), self.least)  # fmt: skip
        return self if b <= self.least[j] else self._replace(covariance=self.covariance - np.outer(s, s / b))

    def signals(self) -> Floats:
        """The signal to noise of each update, shape (N,): 0 where it is hidden, infinite where nothing covers it."""
        return _signal(np.diag(self.hidden), np.diag(self.covariance))

    def with_one(self) -> Floats:
        """The most that anybody's one further known update lets learn of each, shape (N,): exact."""
        a, b = np.diag(self.hidden), np.diag(self.covariance)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(a > TOLERANCE, self.hidden / a, 0.0)
            fixed = np.where((a <= TOLERANCE) & (b > self.least), self.covariance / b, 0.0)
        unknown = a[:, None] - ratio * self.hidden
        variance = b[:, None] - 2 * ratio * self.covariance + ratio**2 * b - fixed * self.covariance
        learned = _signal(unknown, variance)
        np.fill_diagonal(learned, 0.0)
        return learned.max(axis=1)

    def with_two(self) -> Floats:
        """The most that two further known updates let learn of each, shape (N,): exact, O(N^3)."""
        best = self.signals()
        for j in range(len(best)):
            learned = self.without(j).with_one()
            learned[j] = 0.0
            np.maximum(best, learned, out=best)
        return best


def _signal(hidden: Floats, variance: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        signal: Floats = np.where(hidden > TOLERANCE, 0.0, 1 / np.sqrt(np.maximum(variance, 0.0)))
    return signal


def greedy(errors: Errors, steps: int) -> Floats:
    """What coalitions learn that are put together one by one, shape (steps + 1, N), a coalition for each client.

    First whoever takes most from what is hidden of the client joins, then whoever takes most of the error. Choices are
    made on rounded numbers, so that they do not depend on the last digit.
    """
    clients = len(errors.hidden)
    every = np.arange(clients)
    n, s = errors.hidden.copy(), errors.covariance.copy()  # the client's own rows, as they are after each step
    a, b = (np.tile(np.diag(part), (clients, 1)) for part in errors[:2])
    open_ = ~np.eye(clients, dtype=bool)
    steps_done: list[tuple[Floats, Floats, Floats]] = []
    learned = np.zeros((steps + 1, clients))
    learned[0] = errors.signals()
    for step in range(1, steps + 1):
        j = _best(n, s, a, np.where(b > errors.least, b, 0.0), open_, every)
        first, p, q = _step(errors, j, a[every, j], b[every, j], steps_done)
        steps_done.append((first, p, q))
        here = first[every, every], p[every, every], q[every, every]
        n -= here[0][:, None] * first
        s -= here[2][:, None] * p + here[1][:, None] * q
        a -= first**2
        b -= 2 * p * q
        open_[every, j] = False
        learned[step] = _signal(n[every, every], s[every, every])
    return np.maximum.accumulate(learned, axis=0)


def _best(n: Floats, s: Floats, a: Floats, b: Floats, open_: Bools, every: Integers) -> Integers:
    """Who joins each client's coalition."""
    unknown, error = n[every, every], s[every, every]
    free = a > TOLERANCE
    with np.errstate(divide="ignore", invalid="ignore"):
        hidden = np.where(free & (unknown > TOLERANCE)[:, None], n**2 / a, 0.0)
        covered = np.where(~free & (b > 0) & (unknown <= TOLERANCE)[:, None], s**2 / (b * error[:, None]), 0.0)
    score = np.round(np.nan_to_num(hidden + covered, posinf=0.0), 9)
    return np.where(open_, score, -1.0).argmax(axis=1)


def _step(
    errors: Errors, j: Integers, a: Floats, b: Floats, done: list[tuple[Floats, Floats, Floats]]
) -> tuple[Floats, Floats, Floats]:
    """One elimination for each client: hidden loses f f', the covariance p q' + q p'; three arrays (N, N)."""
    every = np.arange(len(j))
    n, s = errors.hidden[j].copy(), errors.covariance[j].copy()
    for first, p, q in done:
        n -= first[every, j][:, None] * first
        s -= q[every, j][:, None] * p + p[every, j][:, None] * q
    free = (a > TOLERANCE)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(free, n / np.sqrt(a)[:, None], 0.0)
        halves = np.where((b > errors.least[j])[:, None], s / np.sqrt(2 * b)[:, None], 0.0)
        rest = s / np.sqrt(a)[:, None] - first * (b / (2 * a))[:, None]
    return first, np.where(free, first, halves), np.where(free, rest, halves)


PARTITIONS = (1, 7)
"""Strides by which clients are dealt to groups; every one gives bounds that hold."""


def pairs(gram: Floats) -> Floats:
    """Squared distances of each column of A from each other one's line, ascending in each row, shape (N, N - 1).

    The entry c of a row bounds what c colluders learn of that client, and entry N - 2 is what the best N - 2 do.

    Args:
        gram: A'A, shape (N, N).
    """
    lengths = np.diag(gram).copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = lengths[:, None] - np.where(lengths > 0, gram**2 / lengths, 0.0)
    distances[distances < TOLERANCE * lengths[:, None]] = 0.0  # rounding; a difference that small counts as none
    np.fill_diagonal(distances, np.inf)
    return np.sort(distances, axis=1)[:, :-1]


def groups(gram: Floats, colluders: int) -> Floats:
    """Squared distances that bound what so many colluders learn, shape (N,); infinite where there are too few clients.

    The clients are dealt to colluders + 2 groups. At least one group other than the client's own has no colluder.
    """
    clients = len(gram)
    number = colluders + 2
    bound = np.full(clients, np.inf)
    if number > clients:
        return bound
    for stride in PARTITIONS:
        label = (np.arange(clients) * stride % clients) * number // clients
        worst = np.zeros(clients)
        for group in range(number):
            members = np.flatnonzero(label == group)
            distance = _distances(gram, members)
            distance[members] = 0.0  # its own group is not used
            np.maximum(worst, distance, out=worst)
        np.minimum(bound, worst, out=bound)
    return bound


def _distances(gram: Floats, members: Integers) -> Floats:
    """Squared distances of all columns from a point in the span of some, next to the nearest; shape (N,).

    Any point of the span gives a bound, so that a small ridge for nearly dependent columns does no harm.
    """
    inner, cross = gram[np.ix_(members, members)], gram[members]
    ridge = TOLERANCE * float(np.trace(inner)) or 1.0
    near = np.linalg.solve(inner + ridge * np.eye(len(members)), cross)
    lengths = np.diag(gram)
    distance: Floats = lengths - 2 * (near * cross).sum(axis=0) + (near * (inner @ near)).sum(axis=0)
    return np.where(distance < 10 * TOLERANCE * lengths, 0.0, distance)


def smaller_than_hidden(colluders: Integers, class_sizes: Integers, weak: int) -> Bools:
    """Where so many colluders learn nothing for certain, shape (colluders, N).

    A client that always took part together with s - 1 others, with equal weights, is hidden among those of them who do
    not collude; and no combination of the sums has fewer than ``weak`` clients.
    """
    return (colluders[:, None] < class_sizes - 1) | (colluders[:, None] + 1 < weak)
