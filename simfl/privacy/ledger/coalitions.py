"""What coalitions of a given size learn: lower bounds, each attained by a coalition.

A coalition knows its own updates, so that they are no unknowns any more. Write the covariance of the estimate with a
prior of variance 1/d on every update as H = N/d + S, with d towards 0: N is the projector onto what is hidden. To fix
update j is one step of elimination, H - H_j H_j' / H_jj, which is done here for both orders of d.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.ledger.information import TOLERANCE, Floats


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
        best: Floats = learned.max(axis=1)
        return best


def _signal(hidden: Floats, variance: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        signal: Floats = np.where(hidden > TOLERANCE, 0.0, 1 / np.sqrt(np.maximum(variance, 0.0)))
    return signal


def with_two(errors: Errors) -> Floats:
    """The most that two further known updates let learn of each, shape (N,): exact, O(N^3)."""
    best = errors.signals()
    for j in range(len(best)):
        learned = errors.without(j).with_one()
        learned[j] = 0.0
        np.maximum(best, learned, out=best)
    return best


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
    best: Floats = np.maximum.accumulate(learned, axis=0)
    return best


def _best(
    n: Floats, s: Floats, a: Floats, b: Floats, open_: NDArray[np.bool_], every: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Who joins each client's coalition."""
    unknown, error = n[every, every], s[every, every]
    free = a > TOLERANCE
    with np.errstate(divide="ignore", invalid="ignore"):
        hidden = np.where(free & (unknown > TOLERANCE)[:, None], n**2 / a, 0.0)
        covered = np.where(~free & (b > 0) & (unknown <= TOLERANCE)[:, None], s**2 / (b * error[:, None]), 0.0)
    score = np.round(np.nan_to_num(hidden + covered, posinf=0.0), 9)
    chosen: NDArray[np.int64] = np.where(open_, score, -1.0).argmax(axis=1)
    return chosen


def _step(
    errors: Errors, j: NDArray[np.int64], a: Floats, b: Floats, done: list[tuple[Floats, Floats, Floats]]
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
