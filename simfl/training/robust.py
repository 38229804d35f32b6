"""Aggregates that resist attackers: sums of the updates, each times what it counts by all that have a positive weight.

Of n updates at most f are attackers'.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from simfl.core.scenario_view import ScenarioView, aggregate_size
from simfl.core.types import Bools, Floats, Integers, Vectors
from simfl.training.aggregates import AGGREGATES, AggregationRule, BesideUpdates

Rest = BesideUpdates | None


@dataclass(frozen=True)
class _ByShares(AggregationRule):
    """What these rules share; one that goes on from the sum before gives that what is left of 1."""

    weighted = False
    reads_server = True

    @abstractmethod
    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        """What each of n updates counts, (n,), all of them with positive weights."""

    def shares(self, deltas: Vectors, weights: Floats, beside: Rest = None) -> Floats:
        counts, present = np.zeros(len(weights)), weights > 0
        counts[present] = self._count(deltas[present], weights[present], beside)
        return counts

    def combine(
        self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None, beside: Rest = None
    ) -> Vectors:
        counts = self.shares(deltas, weights, beside)
        total = np.einsum("n,nd->d", counts.astype(np.float32), deltas)
        if beside is not None and self.reads_previous:
            total += np.float32(1 - counts.sum()) * beside.previous
        return total


@AGGREGATES("krum")
@dataclass(frozen=True)
class Krum(_ByShares):
    """The one update whose n - f - 2 nearest others are nearest, by the sum of their squared distances.

    Reference: Blanchard, El Mhamdi, Guerraoui and Stainer, "Machine learning with adversaries: Byzantine tolerant
    gradient descent", NeurIPS 2017; it needs n >= 2 f + 3.
    """

    f: Annotated[int, Field(ge=0, description="attackers that it withstands among the updates of a sum")]

    example = {"f": 1}
    times = 2
    """It needs so many times f updates, and three."""

    @property
    def least(self) -> int:  # type: ignore[override]
        """Of fewer it makes something of which nothing is proven."""
        return self.times * self.f + 3 if self.f else 1

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Sums are large enough, if nobody fails."""
        count = _vector_count(setting)
        if count is None or count >= self.least:
            return []
        what = "rounds of {} units" if setting.secagg.sums_units else "sums of {} updates"
        why = f"is {self.f}, which takes {what.format(self.least)} or more, and they have {count}"
        return [("f", f"{why}; the nearest valid value is {max(count - 3, 0) // self.times}")]

    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        """Of equal scores the first ones."""
        best = np.argsort(self._score(_square_distances(deltas)), kind="stable")[: self._chosen(len(deltas))]
        return np.isin(np.arange(len(deltas)), best) / len(best)

    def _chosen(self, n: int) -> int:
        return 1

    def _score(self, squares: Floats) -> Floats:
        """Krum's score of each of n updates, (n,), of their squared distances, (n, n); each is nearest to itself."""
        nearest = max(len(squares) - self.f - 2, 1)
        return np.sort(squares, axis=1)[:, 1 : nearest + 1].sum(axis=1)


@AGGREGATES("multi_krum")
@dataclass(frozen=True)
class MultiKrum(Krum):
    """The mean of the updates that Krum ranks first. Reference: as Krum (m-Krum)."""

    m: Annotated[int | None, Field(ge=1, description="so many of them; null = all but f")] = None

    def _chosen(self, n: int) -> int:
        return min(self.m or max(n - self.f, 1), n)


@AGGREGATES("bulyan")
@dataclass(frozen=True)
class Bulyan(Krum):
    """Takes n - 2 f updates by Krum, one by one, and of these in each coordinate the mean of the n - 4 f values nearest
    to the median.

    Reference: El Mhamdi, Guerraoui and Rouault, "The hidden vulnerability of distributed learning in Byzantium", ICML
    2018; it needs n >= 4 f + 3.
    """

    times = 4

    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        """The mean over the coordinates."""
        counts, chosen = np.zeros(len(deltas)), self._choose(deltas)
        counts[chosen] = self._near(deltas[chosen]).mean(axis=1, dtype=np.float64)
        return counts

    def combine(
        self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None, beside: Rest = None
    ) -> Vectors:
        present = deltas[weights > 0]
        chosen = present[self._choose(present)]
        return np.einsum("nd,nd->d", self._near(chosen), chosen)

    def _choose(self, deltas: Vectors) -> list[int]:
        squares, left, chosen = _square_distances(deltas), list(range(len(deltas))), list[int]()
        while len(chosen) < max(len(deltas) - 2 * self.f, 1):
            chosen.append(left.pop(int(self._score(squares[np.ix_(left, left)]).argmin())))
        return chosen

    def _near(self, chosen: Vectors) -> Vectors:
        """What each value counts in its coordinate, (n, d)."""
        count, shares = max(len(chosen) - 2 * self.f, 1), np.zeros(chosen.shape, dtype=np.float32)
        nearest = np.argsort(np.abs(chosen - np.median(chosen, axis=0)), axis=0, kind="stable")[:count]
        np.put_along_axis(shares, nearest, np.float32(1 / count), axis=0)
        return shares


@AGGREGATES("geometric_median")
@dataclass(frozen=True)
class GeometricMedian(_ByShares):
    """The point whose weighted sum of distances to all updates is least, by Weiszfeld's steps from their mean, in which
    no distance counts as less than the smoothing; it withstands attackers of less than half of the weight.

    Reference: Pillutla, Kakade and Harchaoui, "Robust aggregation for federated learning", IEEE Transactions on Signal
    Processing 70, 2022 (smoothed Weiszfeld).
    """

    smoothing: Annotated[float, Field(gt=0, description="the paper's nu")] = 1e-6
    iterations: Annotated[int, Field(ge=1, le=10_000, description="at most so many steps; fewer once it stands")] = 100

    weighted = True

    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        counts = alpha = weights / weights.sum()
        for _ in range(self.iterations):
            before, point = counts, np.einsum("n,nd->d", counts, deltas)
            beta = alpha / np.maximum(self.smoothing, _norms(deltas - point))
            counts = beta / beta.sum()
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

    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        return weights / weights.sum() / np.maximum(1, _norms(deltas) / self.bound)


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

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return _one_model(setting)

    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        begins = None if beside is None or not self.reads_previous else beside.previous
        counts, point = np.zeros(len(deltas)), np.zeros(deltas.shape[1], dtype=np.float32) if begins is None else begins
        for _ in range(self.iterations):
            part = np.minimum(1, self.radius / np.maximum(_norms(deltas - point), 1e-12)) / len(deltas)
            counts = counts * (1 - part.sum()) + part
            point = point + np.einsum("n,nd->d", part, deltas - point)
        return counts


@AGGREGATES("fltrust")
@dataclass(frozen=True)
class FLTrust(_ByShares):
    """Trusts an update as far as it points where the server's own update does, of samples that the server holds, and
    gives it the length of that one. An update that points elsewhere counts nothing.

    The samples are drawn once from the training part, as in the paper's case I; clients may hold them too.

    Reference: Cao, Fang, Liu and Gong, "FLTrust: Byzantine-robust federated learning via trust bootstrapping", NDSS
    2021.
    """

    samples: Annotated[int, Field(ge=1, description="that the server holds")] = 100

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if not setting.learning.measures_losses:
            return [("", "trains on samples, and nothing is learned; use another aggregate")]
        return _one_model(setting)

    def _count(self, deltas: Vectors, weights: Floats, beside: Rest) -> Floats:
        if beside is None:
            return np.zeros(len(deltas))
        root = beside.root(self.samples).astype(np.float64)
        norm, norms = float(np.linalg.norm(root)), np.maximum(_norms(deltas), 1e-12)
        trust = np.maximum(np.einsum("nd,d->n", deltas, root) / norms, 0)
        return trust / (trust.sum() or 1.0) * norm / norms


@AGGREGATES("bucketed")
@dataclass(frozen=True)
class Bucketed(AggregationRule):
    """The means of buckets of updates, put together by another rule, which then sees fewer and less different vectors.

    Buckets of ``clients`` have neighbouring numbers: they are the units of ``batch_partition`` with T = size, so that
    the rule sees what a secure sum of each unit would show. Drawn ones: Karimireddy, He and Jaggi, "Byzantine-robust
    learning on heterogeneous datasets via bucketing", ICLR 2022.
    """

    rule: Annotated[Annotated[Any, AGGREGATES], Field(description="of the buckets, each counting once")]
    size: Annotated[int, Field(ge=1, description="clients in a bucket; one may be smaller")] = 2
    by: Annotated[Literal["clients", "draw"], Field(description="neighbouring numbers, or drawn anew")] = "draw"

    weighted = False
    reads_server = True
    example = {"rule": "median"}

    @property
    def reads_previous(self) -> bool:  # type: ignore[override]
        """Whether its rule does."""
        return bool(self.rule.reads_previous)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Enough buckets are in a sum."""
        count, least = _vector_count(setting), self.rule.least
        if count is None or -(-count // self.size) >= least:
            return []
        most = max(count // least, 1)
        why = f"is {self.size}, and {self.rule.name} takes {least} buckets or more of {count} updates"
        return [("size", f"{why}; the nearest valid value is {most}")]

    def combine(
        self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None, beside: Rest = None
    ) -> Vectors:
        means, _, sizes = self._means(deltas, weights, beside)
        more = {"beside": beside} if self.rule.reads_server else {}
        total: Vectors = self.rule.combine(means, np.ones(len(sizes)), float(len(sizes)), **more)
        return total

    def shares(self, deltas: Vectors, weights: Floats, beside: Rest = None) -> Floats | None:
        means, bucket, sizes = self._means(deltas, weights, beside)
        if (counts := self.rule.shares(means, np.ones(len(sizes)), beside)) is None:
            return None
        shares = np.zeros(len(weights))
        shares[weights > 0] = (counts / sizes)[bucket]
        return shares

    def _means(self, deltas: Vectors, weights: Floats, beside: Rest) -> tuple[Vectors, Integers, Integers]:
        """Of each bucket, (b, d), in which each update with a weight is, and how many are in each."""
        places, present = np.arange(len(weights)), weights > 0
        if beside is not None:
            places = beside.clients if self.by == "clients" else beside.rng().permutation(places)
        _, bucket, sizes = np.unique(places[present] // self.size, return_inverse=True, return_counts=True)
        means = np.zeros((len(sizes), deltas.shape[1]), dtype=np.float32)
        np.add.at(means, bucket, deltas[present] / sizes[bucket, None].astype(np.float32))
        return means, bucket, sizes


def _vector_count(setting: ScenarioView) -> int | None:
    """Vectors that an aggregate is given: updates, or sums of units; None where there are now more, now fewer."""
    count = aggregate_size(setting)
    return count // setting.selection.unit_size if count and setting.secagg.sums_units else count


def _one_model(setting: ScenarioView) -> list[tuple[str, str]]:
    """What cannot be where a server compares updates with what it has."""
    if setting.training.own_models:
        return [("", "is of one server's model, and every client has its own; use aggregate: geometric_median")]
    if setting.compression.subsamples:
        return [("", f"compares whole updates, and compression: {setting.compression.name} leaves some out")]
    return []


def _square_distances(deltas: Vectors) -> Floats:
    """Of each update to each, (n, n)."""
    return np.stack([_norms(deltas - each) ** 2 for each in deltas])


def _norms(deltas: Any) -> Floats:
    """The Euclidean norm of each update, (n,)."""
    return np.sqrt(np.square(deltas).sum(axis=1, dtype=np.float64))
