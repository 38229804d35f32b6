"""Skellam noise, a part from each client, in the field of a secure sum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.dp.losses import ORDERS
from simfl.privacy.dp.mechanisms import skellam
from simfl.privacy.dp.stages.discrete_noise import Distributed, Floats, Points
from simfl.privacy.dp.stages.local_noise import noise_stream
from simfl.privacy.stage import STAGES


@STAGES("skellam")
@dataclass(frozen=True)
class Skellam(Distributed):
    """Updates are clipped to norm C and become whole numbers; each client adds Skellam noise of variance (z C)² / n.

    Parts add up to Skellam noise, whoever is missing; epsilon is of those who are there. Sensitivity: that of the
    rounded updates, C and a little. Adjacency: a client's update against none. It protects against the server, too.
    Reference: Agarwal, Kairouz and Liu, "The Skellam mechanism", NeurIPS 2021, Theorem 3.5.
    """

    maps = Distributed.maps

    def noise(self, job: Job, to: Points, streams: Streams) -> NDArray[np.int64]:
        return skellam.sample(noise_stream(streams, "skellam", job), self.share * to.scale**2, to.dimension)

    def divergences(self, l1: float, l2: float, variance: float, dimension: float, honest: float) -> Floats:
        if not variance * honest:
            return np.full(len(ORDERS), np.inf)
        slack = skellam.slack(honest * dimension * (1 + self.seeds))
        return skellam.rdp(ORDERS, l1, l2, variance * honest) + slack
