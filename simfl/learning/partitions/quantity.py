"""Clients that differ in how much they hold, not in what."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.distributions import DistributionField, LogNormal, checked_draws
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split, apportion


@PARTITIONS("quantity")
@dataclass(frozen=True)
class Quantity:
    """The samples are shuffled and divided in proportion to draws from a distribution; a client may go empty."""

    proportions: Annotated[DistributionField, Field(description="relative number of samples of a client")] = LogNormal(
        median=1.0, sigma=1.0
    )

    always_possible = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        samples = len(data.y_train)
        order = rng.permutation(samples)
        shares = checked_draws("proportions", self.proportions, self.proportions.sample(rng, clients))
        if not shares.sum() > 0:
            shares = np.ones(clients)
        return Split.cut(order, apportion(samples, shares))
