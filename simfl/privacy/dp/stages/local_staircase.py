"""Staircase noise that each client adds to its own update."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.types import Arrays, Job
from simfl.privacy.certify.maps import Bound, ClipCoordinates, Facts, Map
from simfl.privacy.dp.mechanisms import staircase
from simfl.privacy.dp.stages.local_noise import LocalNoise, noise_stream
from simfl.privacy.stage import STAGES, Loss, Members


@STAGES("local_staircase")
@dataclass(frozen=True)
class LocalStaircase(LocalNoise):
    """Each coordinate is clipped and gets staircase noise; the d coordinates share the update's epsilon.

    Sensitivity: bound in each coordinate. Adjacency: a client's update against none. It protects against the server,
    too. It is best for one coordinate; its parts do not add up to a staircase, so that it is local only. Reference:
    Geng and Viswanath, "The optimal mechanism in differential privacy", ISIT 2014.
    """

    bound: Annotated[float, Field(gt=0, description="the largest magnitude of a coordinate")] = 1.0
    epsilon: Annotated[float, Field(gt=0, description="pure epsilon of one update, of all its coordinates")] = 1.0
    least: Annotated[
        Literal["magnitude", "variance"], Field(description="what of the noise is made as small as it can be")
    ] = "magnitude"

    @property
    def maps(self) -> tuple[Map, ...]:
        return (ClipCoordinates(self.bound),)

    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], NDArray[np.float64]]:
        if not dimension:
            return lambda job: np.zeros(0)
        each = self.epsilon / dimension
        gamma = staircase.least_magnitude(each) if self.least == "magnitude" else staircase.least_variance(each)
        return lambda job: staircase.sample(
            noise_stream(streams, "local_staircase", job), self.bound, each, gamma, dimension
        )

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        return {"sensitivity": self.bound, "update_epsilon": self.epsilon}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return Loss(pure=facts["update_epsilon"])
