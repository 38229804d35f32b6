"""Class mixtures drawn from a Dirichlet distribution."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split
from simfl.learning.partitions.deal import apportion, by_class, equal_sizes

__all__ = ["DirichletPartition"]


@PARTITIONS("dirichlet")
@dataclass(frozen=True)
class DirichletPartition:
    """Every client's classes, or every class's clients, in proportions drawn from Dirichlet(beta).

    ``over: classes`` (Hsu, Qi and Brown 2019): clients hold equally many samples, and client i's classes follow
    q_i ~ Dirichlet(beta * classes * p) with p the share of each class in the data; where a class has run out,
    a mixture of the others, drawn likewise, takes its part. ``over: clients`` (Yurochkin et al. 2019): every class is
    divided in proportions ~ Dirichlet(beta, ..., beta), so that sizes differ and clients may go empty.
    """

    beta: Annotated[float, Field(gt=0, le=1e9, description="concentration: large = IID, small = one class a client")]
    over: Annotated[
        Literal["classes", "clients"], Field(description="draw a client's class mixture, or a class's client mixture")
    ] = "classes"

    example = {"beta": 0.5}

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools = by_class(data, rng)
        if self.over == "clients":
            shares = rng.dirichlet(np.full(clients, self.beta), size=len(pools))
            counts = np.array([apportion(len(pool), share) for pool, share in zip(pools, shares, strict=True)])
        else:
            counts = self._mixtures(np.array([len(pool) for pool in pools]), clients, rng)
        owners = np.concatenate([np.repeat(np.arange(clients), count) for count in counts])
        return Split.owned(np.concatenate(pools), owners, clients)

    def _mixtures(self, left: NDArray[np.int64], clients: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Samples of each class for each client, shape (classes, clients); clients choose in random order."""
        alpha = self.beta * np.count_nonzero(left) * left / left.sum()
        counts = np.zeros((len(left), clients), dtype=np.int64)
        sizes = equal_sizes(left.sum(), clients)
        for client in rng.permutation(clients):
            wanted = sizes[client]
            while wanted:  # again only where a class has run out
                open_ = np.flatnonzero(left)
                mixture = rng.dirichlet(np.maximum(alpha[open_], 1e-6))
                take = np.minimum(rng.multinomial(wanted, mixture), left[open_])
                counts[open_, client] += take
                left[open_] -= take
                wanted -= take.sum()
        return counts
