"""Laplace noise that each client adds to its own update."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.types import Arrays, Job
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map
from simfl.privacy.dp.mechanisms import laplace
from simfl.privacy.dp.stages.local_noise import LocalNoise, noise_stream
from simfl.privacy.stage import STAGES, Loss, Members


@STAGES("local_laplace")
@dataclass(frozen=True)
class LocalLaplace(LocalNoise):
    """Updates are clipped in L1; each coordinate gets Laplace(clip_norm / epsilon).

    Sensitivity: clip_norm in L1. Adjacency: a client's update against none. It protects against the server, too.
    Reference: Dwork et al., "Calibrating noise to sensitivity in private data analysis", TCC 2006.
    """

    clip_norm: Annotated[float, Field(gt=0, description="the largest sum of an update's magnitudes")] = 1.0
    epsilon: Annotated[float, Field(gt=0, description="pure epsilon of one update")] = 1.0

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.clip_norm, 1),)

    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], NDArray[np.float64]]:
        scale = laplace.scale(self.clip_norm, self.epsilon)
        return lambda job: laplace.sample(noise_stream(streams, "local_laplace", job), scale, dimension)

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        scale = laplace.scale(self.clip_norm, self.epsilon)
        return {"sensitivity": self.clip_norm, "scale": scale, "update_epsilon": self.epsilon}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return Loss(pure=facts["update_epsilon"] * (bound.l1 / self.clip_norm))
