"""Aggregates that resist updates which attackers have made; what each update counts follows from all of them.

n updates of which at most f are attackers'. Updates of weight 0 are in none of it.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.scenario_view import ScenarioView, summands
from simfl.core.types import Bools, Floats, Vectors
from simfl.training.aggregates import AGGREGATES, AggregationRule, BesideUpdates

F = Annotated[int, Field(ge=0, description="attackers that it withstands among the updates of a sum")]


@dataclass(frozen=True)
class _ByShares(AggregationRule):
    """What rules share that are a sum of the updates, each times a number that all of them decide."""

    weighted = False
    sum_only = False

    @abstractmethod
    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        """What each of n updates counts, all of them with positive weights."""

    def shares(self, deltas: Vectors, weights: Floats) -> Floats:
        """What each counts; 0 without weight."""
        counts, present = np.zeros(len(weights)), weights > 0
        counts[present] = self._of_present(deltas[present], weights[present])
        return counts

    def combine(self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
        return np.einsum("n,nd->d", self.shares(deltas, weights).astype(np.float32), deltas)


@dataclass(frozen=True)
class _Withstanding(_ByShares):
    """What rules share that are told how many attackers there may be."""

    f: F

    example = {"f": 1}

    times = 0
    """It needs so many times f updates, and three."""

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Sums are large enough, if nobody fails; of fewer it makes something of which nothing is proven."""
        count, least = summands(setting), self.times * self.f + 3
        if not self.f or count is None or count >= least:
            return []
        why = f"is {self.f}, which takes sums of {least} updates or more, and they have {count}"
        return [("f", f"{why}; the nearest valid value is {max(count - 3, 0) // self.times}")]


@AGGREGATES("krum")
@dataclass(frozen=True)
class Krum(_Withstanding):
    """The one update whose n - f - 2 nearest others are nearest, by the sum of their squared distances.

    Reference: Blanchard, El Mhamdi, Guerraoui and Stainer, "Machine learning with adversaries: Byzantine tolerant
    gradient descent", NeurIPS 2017; it needs n >= 2 f + 3 (proposition 4.2).
    """

    times = 2

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        return _chosen(krum_scores(square_distances(deltas), self.f), 1)


@AGGREGATES("multi_krum")
@dataclass(frozen=True)
class MultiKrum(Krum):
    """The mean of the updates that Krum ranks first.

    Reference: as Krum (m-Krum).
    """

    m: Annotated[int | None, Field(ge=1, description="so many of them; null = all but f")] = None

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        count = min(self.m or max(len(deltas) - self.f, 1), len(deltas))
        return _chosen(krum_scores(square_distances(deltas), self.f), count)


@AGGREGATES("bulyan")
@dataclass(frozen=True)
class Bulyan(_Withstanding):
    """Takes n - 2 f updates by Krum, one by one, and of these in each coordinate the mean of the n - 4 f values nearest
    to the median.

    Reference: El Mhamdi, Guerraoui and Rouault, "The hidden vulnerability of distributed learning in Byzantium", ICML
    2018; it needs n >= 4 f + 3.
    """

    times = 4

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        chosen = self._choose(deltas)
        counts = np.zeros(len(deltas))
        counts[chosen] = self._inside(deltas[chosen]).mean(axis=1) / self._beta(len(chosen))
        return counts

    def combine(self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
        present = deltas[weights > 0]
        chosen = present[self._choose(present)]
        return np.where(self._inside(chosen), chosen, 0).sum(axis=0) / np.float32(self._beta(len(chosen)))

    def _choose(self, deltas: Vectors) -> list[int]:
        squares, left = square_distances(deltas), list(range(len(deltas)))
        chosen: list[int] = []
        for _ in range(max(len(deltas) - 2 * self.f, 1)):
            chosen.append(left.pop(int(krum_scores(squares[np.ix_(left, left)], self.f).argmin())))
        return chosen

    def _beta(self, count: int) -> int:
        return max(count - 2 * self.f, 1)

    def _inside(self, chosen: Vectors) -> Bools:
        """Which values are among those nearest to their coordinate's median, (n, d)."""
        far = np.abs(chosen - np.median(chosen, axis=0))
        inside = np.zeros(chosen.shape, dtype=bool)
        np.put_along_axis(inside, np.argsort(far, axis=0, kind="stable")[: self._beta(len(chosen))], True, axis=0)
        return inside


@AGGREGATES("geometric_median")
@dataclass(frozen=True)
class GeometricMedian(_ByShares):
    """The point whose weighted sum of distances to all updates is least, by Weiszfeld's steps from their mean, in which
    no distance counts as less than the smoothing; it withstands attackers of less than half of the weight.

    Reference: Pillutla, Kakade and Harchaoui, "Robust aggregation for federated learning", IEEE Transactions on Signal
    Processing 70, 2022, Algorithm 2 (smoothed Weiszfeld).
    """

    smoothing: Annotated[float, Field(gt=0, description="the paper's nu")] = 1e-6
    iterations: Annotated[int, Field(ge=1, le=10_000, description="at most so many steps; fewer once it stands")] = 100

    weighted = True

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        alpha = weights / weights.sum()
        counts = alpha
        for _ in range(self.iterations):
            point = np.einsum("n,nd->d", counts, deltas)
            beta = alpha / np.maximum(self.smoothing, [float(np.linalg.norm(each - point)) for each in deltas])
            before, counts = counts, beta / beta.sum()
            if np.abs(counts - before).max() < 1e-9:
                break
        return counts


@AGGREGATES("norm_bound")
@dataclass(frozen=True)
class NormBound(_ByShares):
    """The weighted mean of updates that are shortened to a bound where they are longer.

    Reference: Sun, Kairouz, Suresh and McMahan, "Can you really backdoor federated learning?", arXiv 1911.07963
    (norm thresholding of updates).
    """

    bound: Annotated[float, Field(gt=0, description="largest Euclidean norm")]

    weighted = True
    example = {"bound": 1.0}

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        return weights / weights.sum() / np.maximum(1, row_norms(deltas) / self.bound)


@AGGREGATES("centred_clipping")
@dataclass(frozen=True)
class CentredClipping(_ByShares):
    """Goes on from the sum before by the mean of the updates' differences to it, each shortened to a radius.

    Reference: Karimireddy, He and Jaggi, "Learning from history for Byzantine robust optimization", ICML 2021
    (centered clipping, CC; there of clients' momenta, which last from round to round).
    """

    radius: Annotated[float, Field(gt=0, description="the paper's tau")]
    iterations: Annotated[int, Field(ge=1, le=1000, description="the paper's l")] = 1

    reads_previous = True
    example = {"radius": 1.0}

    def with_server(self, beside: BesideUpdates) -> AggregationRule:
        return _ClippingFrom(**vars(self), previous=beside.previous)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return _one_model(setting)

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        return self._after(deltas, np.zeros(deltas.shape[1], dtype=np.float32))[0]

    def _after(self, deltas: Vectors, previous: Vectors) -> tuple[Floats, Vectors]:
        """What each update counts, and the point."""
        counts, point = np.zeros(len(deltas)), previous
        for _ in range(self.iterations):
            part = np.minimum(1, self.radius / np.maximum(row_norms(deltas - point), 1e-12)) / len(deltas)
            counts = counts * (1 - part.sum()) + part
            point = point + np.einsum("n,nd->d", part.astype(np.float32), deltas - point)
        return counts, point


@dataclass(frozen=True)
class _ClippingFrom(CentredClipping):
    """The same from a point, (d,)."""

    previous: Vectors = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        return self._after(deltas, self.previous)[0]

    def combine(self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
        return self._after(deltas[weights > 0], self.previous)[1]


@AGGREGATES("fltrust")
@dataclass(frozen=True)
class FLTrust(_ByShares):
    """Trusts an update as far as it points where the server's own update does, of samples that the server holds, and
    gives it the length of that one. An update that points elsewhere counts nothing.

    The samples are drawn once from the training part, as in the paper's case I; clients may hold them too.

    Reference: Cao, Fang, Liu and Gong, "FLTrust: Byzantine-robust federated learning via trust bootstrapping", NDSS
    2021, Algorithm 2.
    """

    samples: Annotated[int, Field(ge=1, description="that the server holds")] = 100

    reads_root = True

    def with_server(self, beside: BesideUpdates) -> AggregationRule:
        return _Trusting(self.samples, beside.root(self.samples))

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if not setting.learning.measures_losses:
            return [("", "trains on samples, and nothing is learned; use another aggregate")]
        return _one_model(setting)

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        return np.zeros(len(deltas))


@dataclass(frozen=True)
class _Trusting(FLTrust):
    """The same beside the server's own update, (d,)."""

    root: Vectors = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    def _of_present(self, deltas: Vectors, weights: Floats) -> Floats:
        root = self.root.astype(np.float64)
        norm, norms = float(np.linalg.norm(root)), np.maximum(row_norms(deltas), 1e-12)
        trust = np.maximum(np.einsum("nd,d->n", deltas, root) / norms / max(norm, 1e-12), 0)
        return trust / (trust.sum() or 1.0) * norm / norms


def _one_model(setting: ScenarioView) -> list[tuple[str, str]]:
    """What cannot be where a server goes on from what it has, in the coordinates that are summed."""
    if setting.training.own_models:
        return [("", "is of one server's model, and every client has its own; use aggregate: geometric_median")]
    if setting.compression.subsamples:
        return [("", f"compares whole updates, and compression: {setting.compression.name} leaves some out")]
    return []


def square_distances(deltas: Vectors) -> Floats:
    """Of each update to each, (n, n)."""
    return np.stack([np.square(deltas - each).sum(axis=1, dtype=np.float64) for each in deltas])


def row_norms(deltas: Vectors) -> Floats:
    """The Euclidean norm of each update, (n,)."""
    return np.sqrt(np.square(deltas, dtype=np.float64).sum(axis=1))


def krum_scores(squares: Floats, f: int) -> Floats:
    """Krum's score of each of n updates, (n,), of their squared distances, (n, n)."""
    nearest = max(len(squares) - f - 2, 1)
    return np.sort(squares, axis=1)[:, 1 : nearest + 1].sum(axis=1)  # each is nearest to itself


def _chosen(scores: Floats, count: int) -> Floats:
    """What each counts where those with the lowest scores are averaged; of equal ones the first."""
    counts = np.zeros(len(scores))
    counts[np.argsort(scores, kind="stable")[:count]] = 1 / count
    return counts
