"""How several updates become one: the mean, or something in its place."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.registry import Registry

__all__ = ["AGGREGATES", "Aggregate", "Masked", "Mean", "Median", "TrimmedMean"]


class Aggregate(Protocol):
    """A frozen dataclass whose method is pure.

    Attributes:
        weighted: it follows the weights; else every update with a positive weight counts once.
        sum_only: the sum of the updates is all it needs, which is all that secure aggregation shows.
    """

    weighted: bool
    sum_only: bool

    @abstractmethod
    def combine(
        self,
        deltas: NDArray[np.float32],
        weights: NDArray[np.float64],
        normaliser: float,
        holds: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float32]:
        """One update, float32 (d,), of n >= 1 updates (n, d) and their weights (n,), some of them positive.

        Args:
            deltas: the updates.
            weights: of each update.
            normaliser: what a weighted sum is divided by, above 0; the sum of the weights unless a rule says otherwise.
            holds: the coordinates that each update speaks about, (n, d); None = all. A coordinate is averaged over
                those who hold it, and is 0 where nobody does.
        """
        ...


AGGREGATES = Registry("aggregate", protocol=Aggregate)


@AGGREGATES("mean")
@dataclass(frozen=True)
class Mean:
    """The weighted mean."""

    weighted = True
    sum_only = True

    def combine(
        self,
        deltas: NDArray[np.float32],
        weights: NDArray[np.float64],
        normaliser: float,
        holds: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float32]:
        # not a matrix product: the bits of BLAS depend on its number of threads
        share = (weights / normaliser).astype(np.float32)
        if holds is None:
            return np.einsum("n,nd->d", share, deltas)
        held = np.einsum("n,nd->d", share, holds)
        total = np.einsum("n,nd->d", share, np.where(holds, deltas, 0))
        return np.divide(total * share.sum(), held, out=np.zeros_like(total), where=held > 0)


@AGGREGATES("masked")
@dataclass(frozen=True)
class Masked:
    """Gradient-masked averaging: the mean, scaled down in coordinates whose updates disagree in sign.

    Agreement is A = |mean of sign(update)| in a coordinate; the mean is multiplied by 1 where A >= tau, else by A.
    References: Tenison et al. 2021 (arXiv 2201.11986); Mugunthan (MIT thesis, 2022), chapter 3.
    """

    tau: Annotated[float, Field(ge=0, le=1, description="agreement above which a coordinate keeps its mean")] = 0.4

    weighted = True
    sum_only = False

    def combine(
        self,
        deltas: NDArray[np.float32],
        weights: NDArray[np.float64],
        normaliser: float,
        holds: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float32]:
        chosen = weights > 0
        counted = deltas[chosen]
        votes = (counted > 0).sum(axis=0) - (counted < 0).sum(axis=0)
        voters = len(counted) if holds is None else np.maximum(holds[chosen].sum(axis=0), 1)
        agreement = np.abs(votes) / voters
        mask = np.where(agreement >= self.tau, 1, agreement).astype(np.float32)
        return mask * Mean().combine(deltas, weights, normaliser, holds)


@AGGREGATES("median")
@dataclass(frozen=True)
class Median:
    """The median of every coordinate. Reference: Yin et al. 2018, definition 1."""

    weighted = False
    sum_only = False

    def combine(
        self,
        deltas: NDArray[np.float32],
        weights: NDArray[np.float64],
        normaliser: float,
        holds: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float32]:
        n = int((weights > 0).sum())
        return _middle(deltas[weights > 0], (n - 1) // 2)


@AGGREGATES("trimmed_mean")
@dataclass(frozen=True)
class TrimmedMean:
    """The mean of every coordinate without its extreme values. Reference: Yin et al. 2018, definition 2."""

    trim: Annotated[float, Field(ge=0, lt=0.5, description="share of the updates left out at each end")] = 0.1

    weighted = False
    sum_only = False

    def combine(
        self,
        deltas: NDArray[np.float32],
        weights: NDArray[np.float64],
        normaliser: float,
        holds: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float32]:
        n = int((weights > 0).sum())
        return _middle(deltas[weights > 0], int(self.trim * n + 1e-9))


def _middle(deltas: NDArray[np.float32], drop: int) -> NDArray[np.float32]:
    """Mean over the updates, in every coordinate, without the ``drop`` smallest and the ``drop`` largest."""
    n = len(deltas)
    if drop:
        deltas = np.partition(deltas, (drop, n - drop - 1), axis=0)[drop : n - drop]
    return deltas.mean(axis=0, dtype=np.float32)
