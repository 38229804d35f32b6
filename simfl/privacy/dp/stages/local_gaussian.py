"""Gaussian noise that each client adds to its own update."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Job
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map, Noise
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.dp.stages.central_gaussian import Norm, gaussian_loss
from simfl.privacy.dp.stages.local_noise import LocalNoise, noise_stream
from simfl.privacy.stage import STAGES, Loss, Members


@STAGES("local_gaussian")
@dataclass(frozen=True)
class LocalGaussian(LocalNoise):
    """Updates are clipped to norm C; each client adds the least Gaussian noise that makes its own update private.

    Sensitivity: C in L2. Adjacency: a client's update against none. It protects against the server, too. Reference:
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018.
    """

    clip_norm: Norm = 1.0
    epsilon: Annotated[float, Field(gt=0, description="of one update")] = 1.0
    delta: Annotated[float, Field(gt=0, lt=1, description="of one update; the accountant has its own")] = 1e-5
    calibration: Annotated[
        Literal["analytic", "classical"],
        Field(description="the least noise that will do, or the formula of the textbooks, for epsilon up to 1"),
    ] = "analytic"

    adds_noise = Noise("client", gaussian=True)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(setting)
        if self.calibration == "classical" and self.epsilon > 1:
            why = f"is classical, which says nothing about an epsilon of {self.epsilon:g}, above 1; use analytic"
            problems.append(("calibration", why))
        return problems

    @property
    def std(self) -> float:
        """Of the noise in each coordinate."""
        calibrated = gaussian.std if self.calibration == "analytic" else gaussian.classical_std
        return calibrated(self.clip_norm, self.epsilon, self.delta)

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.clip_norm),)

    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], NDArray[np.float64]]:
        std = self.std
        return lambda job: gaussian.sample(noise_stream(streams, "local_gaussian", job), std, dimension)

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        return {"sensitivity": self.clip_norm, "std": self.std}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return gaussian_loss(bound.l2, facts["std"])
