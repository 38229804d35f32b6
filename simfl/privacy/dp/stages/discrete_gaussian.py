"""Discrete Gaussian noise, a part from each client, in the field of a secure sum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.dp.losses import ORDERS
from simfl.privacy.dp.mechanisms import discrete_gaussian
from simfl.privacy.dp.stages.discrete_noise import Distributed, Floats, Points
from simfl.privacy.dp.stages.local_noise import noise_stream
from simfl.privacy.stage import STAGES


@STAGES("discrete_gaussian")
@dataclass(frozen=True)
class DiscreteGaussian(Distributed):
    """Updates are clipped to norm C and become whole numbers; each client adds discrete Gaussian noise of (z C)² / n.

    Sums of discrete Gaussians are none, but close to one; epsilon counts how close, and who is there. Sensitivity: that
    of the rounded updates, C and a little. Adjacency: a client's update against none. It protects against the server,
    too. Reference: Kairouz, Liu and Steinke, "The distributed discrete Gaussian mechanism", ICML 2021, Theorem 1.
    """

    maps = Distributed.maps

    def noise(self, job: Job, to: Points, streams: Streams) -> NDArray[np.int64]:
        return discrete_gaussian.sample(
            noise_stream(streams, "discrete_gaussian", job), self.share * to.scale**2, to.dimension
        )

    def divergences(self, l1: float, l2: float, variance: float, dimension: float, honest: float) -> Floats:
        if not variance * honest:
            return np.full(len(ORDERS), np.inf)
        return discrete_gaussian.rdp(ORDERS, l1, l2, int(dimension), int(honest), variance)
