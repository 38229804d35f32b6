"""What a server recovers of single updates from all sums so far, measured beside what it could in the worst case.

A guarantee speaks of updates that stay the same from round to round: then a server that solves its sums for them is
exact. Real updates change, and what is recovered of them has to be measured. The attacker is the best of a family of
estimators, each a least-squares solution of all sums so far (So et al., arXiv 2106.03328, Appendix G):

- *weights by age*: the equations of a sum that is ``a`` aggregations old count ``keep ** a``;
- *ridge*: estimates are shrunk, as if the variance of a sum's noise were ``ridge`` times that of an update;
- *prior*: they are shrunk to the mean update of the sums, not to 0; and one says that all are 0.

That the best one is chosen by the truth flatters the attacker: nobody who attacks knows which it is. What is recovered
is the latest update of each client that was in a sum, with an error of |estimate - update|^2 / |update|^2; where stages
may change how long updates are, the estimate is of the length that makes it least, as one number is no secret. A server
that is shown single updates has an equation for each, and the latest one as it is.
"""

from collections.abc import Iterator

import numpy as np

from simfl.attacks.base import ServerView, TrueUpdates, equations
from simfl.attacks.least_squares import chosen_coordinates
from simfl.core.processor import one_thread
from simfl.core.rng import Streams
from simfl.core.types import Arrays, Floats, Integers

KEEP = (1.0, 0.97, 0.9, 0.8, 0.6)
RIDGES = (0.0, 0.01, 0.1, 1.0, 10.0)
COORDINATES = 256
"""Coordinates that are solved for, drawn once: an error is estimated from them."""
STEP = 1.2
"""By so much the sums grow between two measurements."""
BELOW = 0.1
"""An update counts as recovered if its error is smaller."""

ARRAYS = ("gram", "moments", "mean", "weight", "shown", "latest")


def work(clients: int) -> int:
    """Operations of one measurement: a decomposition for each way to weigh ages, a product for each estimator."""
    products = len(KEEP) * (2 * len(RIDGES) + 1)
    return len(KEEP) * 25 * clients**3 + products * 2 * clients**2 * COORDINATES


class RecoveryMeter:
    """Follows the sums of a run; holds what the attacker knows and, apart from it, the truth.

    Args:
        clients: N.
        dimension: d, of the model.
        streams: of the run; they draw the c coordinates.
        budget: operations that all measurements together may take, counted by :func:`work`.
        any_length: updates are compared by their directions.

    Attributes:
        values: what was measured last, by column.
        spent, sums, measured: operations so far; sums so far, and with the last measurement.
        gram, moments: of the equations, weighed by age, (KEEP, N, N) and (KEEP, N, c).
        mean, weight: the sums added up, and their weights, both weighed by age, (KEEP, c) and (KEEP,).
        shown: the latest update of each client that the server was shown, (N, c), NaN where it was shown none.
        latest: each client's latest update, (N, c), NaN of those who were in no sum.
    """

    def __init__(self, clients: int, dimension: int, streams: Streams, budget: int, any_length: bool = False) -> None:
        self.any_length = any_length
        self.budget, self.spent, self.sums, self.measured = budget, 0, 0, 0
        self.values: dict[str, float] = {}
        self.chosen, c = chosen_coordinates(dimension, COORDINATES, streams), min(dimension, COORDINATES)
        self.gram, self.moments = np.zeros((len(KEEP), clients, clients)), np.zeros((len(KEEP), clients, c))
        self.mean, self.weight = np.zeros((len(KEEP), c)), np.zeros(len(KEEP))
        self.shown, self.latest = np.full((clients, c), np.nan), np.full((clients, c), np.nan)

    def learn(self, seen: ServerView, truth: TrueUpdates) -> None:
        """One more aggregation."""
        self.sums += 1
        self.latest[truth.clients] = truth.updates[:, self.chosen]
        rows, values = equations(seen, len(self.latest), "server", self.chosen)
        if seen.vectors is not None:
            self.shown[seen.total.clients] = values
        used = np.flatnonzero(rows.any(axis=0))
        part = rows[:, used]
        square, moment = np.einsum("mi,mj->ij", part, part), np.einsum("mi,mc->ic", part, values)
        keep = np.array(KEEP)
        for array in (self.gram, self.moments, self.mean, self.weight):
            array *= keep.reshape(-1, *[1] * (array.ndim - 1))
        self.gram[:, used[:, None], used] += square
        self.moments[:, used] += moment
        self.mean += values.sum(axis=0)
        self.weight += part.sum()

    def measure(self, last: bool) -> dict[str, float]:
        """``measured_recovered`` and ``measured_error``, each of the attacker that does best by it now.

        It is measured when there are a fifth more sums than at the last time, and at the end; nothing is said
        otherwise, or where the budget would be exceeded, and no error where all updates are zero. What the last
        measurement takes is set aside.

        Args:
            last: whether no other measurement follows.
        """
        if last and self.sums == self.measured:
            return self.values
        cost = work(len(self.latest))
        if not (last or self.sums > STEP * self.measured) or self.spent + (1 if last else 2) * cost > self.budget:
            return {}
        self.spent, self.measured = self.spent + cost, self.sums
        known = np.flatnonzero(~np.isnan(self.latest[:, 0]))
        truth = self.latest[known]
        lengths, recovered, least = np.square(truth).sum(axis=1), 0, np.inf
        for estimate in self._estimates(known):
            if self.any_length:
                sizes, along = np.square(estimate).sum(axis=1), (estimate * truth).sum(axis=1)
                estimate = estimate * np.divide(along, sizes, out=np.zeros(len(sizes)), where=sizes > 0)[:, None]
            off = np.square(estimate - truth).sum(axis=1)
            each = np.divide(off, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
            error = float(each.sum()) / max(int((lengths > 0).sum()), 1)
            recovered, least = max(recovered, int(((each < BELOW) & (lengths > 0)).sum())), min(least, error)
        self.values = {"measured_recovered": recovered} | ({"measured_error": least} if lengths.any() else {})
        return self.values

    def _estimates(self, known: Integers) -> Iterator[Floats]:
        """What each attacker says of the clients ``known``, (n,): (n, c) each."""
        if not np.isnan(self.shown).all():
            yield np.nan_to_num(self.shown[known])
        with one_thread():
            for gram, moments, total, weight in zip(self.gram, self.moments, self.mean, self.weight, strict=True):
                values, vectors = np.linalg.eigh(gram)
                there = values > max(values[-1], 0.0) * len(values) * 10 * np.finfo(float).eps
                basis, values = vectors[:, there], values[there]
                inside, mean = basis.T @ moments, total / (weight or 1.0)
                away = inside - np.outer(values * basis.sum(axis=0), mean)
                for ridge in RIDGES:
                    solve = basis[known] / (values + ridge)
                    yield solve @ inside
                    yield solve @ away + mean
        yield np.zeros((len(known), self.latest.shape[1]))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All of it as named arrays."""
        return {
            **dict(
                zip(ARRAYS, (self.gram, self.moments, self.mean, self.weight, self.shown, self.latest), strict=True)
            ),
            "counts": np.array([self.spent, self.sums, self.measured]),
            **{f"value/{name}": np.asarray(value) for name, value in self.values.items()},
        }

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.gram, self.moments, self.mean, self.weight, self.shown, self.latest = (np.array(state[k]) for k in ARRAYS)
        self.spent, self.sums, self.measured = state["counts"].tolist()
        self.values = {name.removeprefix("value/"): state[name].item() for name in state if name.startswith("value/")}
