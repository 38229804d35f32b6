"""Output perturbation of strongly convex models, for single samples, with shares of noise as PrivacyFL has it.

A client that minimises the mean of 1-Lipschitz losses plus alpha/2 |w|^2 over k samples x, |x| <= R, moves its w by at
most 2 R / (k alpha) in the Euclidean norm when one sample is replaced (Chaudhuri, Monteleoni and Sarwate, JMLR 2011,
Corollary 8), and the mean of n clients by an n-th of that.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import Column
from simfl.privacy.base import STAGES, Members, Stage
from simfl.privacy.mechanisms import gaussian, laplace, staircase
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import Arrays, Job

__all__ = ["OutputPerturbation"]

Count = Annotated[int, Field(ge=1, le=10**9)]
Epsilon = Annotated[float, Field(gt=0, le=1e9)]


@STAGES("output_perturbation")
@dataclass(frozen=True)
class OutputPerturbation(Stage):
    """Each of n clients adds the difference of two Gamma(1/n, scale) to every weight; together they are Laplace.

    With ``adds: whole`` each adds a whole Laplace variable, which is what the n - 1 attack leaves of it. ``gaussian``
    are shares N(0, std² / n), by the textbooks' formula where published (for epsilon up to 1), by the exact profile
    where calibrated, on all weights at once; ``staircase`` has no shares.
    ``published`` is the scale of the publication, 2 R / (n k alpha epsilon), which is meant for the mean of the models
    but added to each before they are averaged: n times too little. ``calibrated`` is for what one sample does to
    its own client's model, so that every weight of the mean is epsilon-private against replacing it. n are the clients
    in the sum; of different epsilons the largest counts. Clients that hold nothing new send the same noise again.
    Reference: Mugunthan, MIT 2022, sections 2.2.3 and 5.3.
    """

    epsilon: Annotated[Epsilon | tuple[Epsilon, ...], Field(description="a number, or one a client")]
    samples: Annotated[
        Count | tuple[Count, ...], Field(description="samples of a client in its first round, k: a number, or one each")
    ]
    alpha: Annotated[float, Field(gt=0, le=1e9, description="strong convexity of the local loss, its L2 penalty")] = 1.0
    new: Annotated[int, Field(ge=0, le=10**9, description="samples that every further round adds to k")] = 0
    rounds: Annotated[
        int | None, Field(ge=1, description="rounds that find new samples; null = all, and all noise is fresh")
    ] = None
    radius: Annotated[float, Field(gt=0, le=1e9, description="largest Euclidean norm of a sample, R")] = 1.0
    noise_scale: Annotated[
        Literal["published", "calibrated"], Field(description="how the scale of the noise follows from epsilon")
    ] = "published"
    adds: Annotated[
        Literal["share", "whole"], Field(description="each client adds a share of the noise, or all of it")
    ] = "share"
    mechanism: Annotated[Literal["laplace", "gaussian", "staircase"], Field(description="the law of the noise")] = (
        "laplace"
    )
    delta: Annotated[float, Field(gt=0, lt=1, description="of gaussian noise; the others need none")] = 1e-5

    columns = (
        Column("epsilon_weight", "ε of a weight", "number",
               "Epsilon of one weight of this round's mean, for one replaced sample, as the noise really is.", -1,
               "sum", shown=False),
        Column("epsilon_model", "ε of the model", "number",
               "Epsilon of this round's whole mean, for one replaced sample; rounds add up.", -1, "sum"),
    )  # fmt: skip
    certificate = "epsilon_model"
    example = {"epsilon": 1.0, "samples": 30}

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        problems = []
        for key, value in (("epsilon", self.epsilon), ("samples", self.samples)):
            if isinstance(value, tuple) and len(value) != setting.clients:
                problems.append((key, f"has {len(value)} values for {setting.clients} clients"))
        most = max(self.epsilon) if isinstance(self.epsilon, tuple) else self.epsilon
        if self.mechanism == "gaussian" and self.noise_scale == "published" and most > 1:
            why = f"is {most:g}, for which the textbooks' Gaussian formula says nothing; the nearest value is 1"
            problems.append(("epsilon", f"{why}, or use noise_scale: calibrated"))
        if self.mechanism == "staircase" and self.adds == "share":
            problems.append(("adds", "is share, but a staircase is no sum of shares; use whole, or mechanism: laplace"))
        if len(set(setting.training.weights(np.array([1, 2, 2]), np.array([0, 0, 3])).tolist())) > 1:
            problems.append(("", "is for a mean in which all clients count the same; use weighting: equal"))
        return problems

    def start(self, dimension: int) -> Arrays:
        return {"dimension": np.int64(dimension)}

    def client(
        self, vectors: NDArray[np.float32], jobs: tuple[Job, ...], state: Arrays, streams: Streams
    ) -> NDArray[np.float32]:
        n, size = vectors.shape
        share = 1 / n if self.adds == "share" else 1.0
        sent = vectors.copy()
        for row, job, scale in zip(sent, jobs, self.scales(jobs).tolist(), strict=True):
            rng = streams("output_perturbation", self._data_of(job.version), job.client)
            row += self._noise(rng, scale, share, _of(self.epsilon, job.client), size).astype(np.float32)
        return sent

    def _noise(
        self, rng: np.random.Generator, scale: float, share: float, epsilon: float, size: int
    ) -> NDArray[np.float64]:
        """A client's part, (size,)."""
        if self.mechanism == "laplace":
            return laplace.share(rng, scale, share, size)
        if self.mechanism == "gaussian":
            return gaussian.sample(rng, scale * sqrt(share), size)
        return staircase.sample(rng, scale * epsilon, epsilon, staircase.least_magnitude(epsilon), size)

    def scales(self, jobs: tuple[Job, ...]) -> NDArray[np.float64]:
        """Of the noise of which each client adds a share, (n,): Laplace's, or of Gaussian noise the standard deviation;
        of a staircase the width of its steps over epsilon.
        """
        wanted = np.array([_of(self.epsilon, job.client) for job in jobs])
        one = 1 / wanted
        if self.mechanism == "gaussian":
            calibrated = gaussian.classical_std if self.noise_scale == "published" else gaussian.std
            one = np.array([calibrated(1.0, epsilon, self.delta) for epsilon in wanted.tolist()])
        spread = self.sensitivities(jobs) * one
        return spread / len(jobs) if self.noise_scale == "published" else spread

    def sensitivities(self, jobs: tuple[Job, ...]) -> NDArray[np.float64]:
        """By how much, in the Euclidean norm, one sample moves each client's model, (n,)."""
        held = [_of(self.samples, job.client) + self.new * self._data_of(job.version) for job in jobs]
        return 2 * self.radius / (np.array(held) * self.alpha)

    def _data_of(self, version: int) -> int:
        """The latest round, up to this version, that brought new samples."""
        return version if self.rounds is None else min(version, self.rounds - 1)

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        """The epsilons of the mean: Gaussian noise adds up; of other noise the least of all clients' counts alone,
        since more noise of others only helps.
        """
        scales, moved, d = self.scales(members.jobs), self.sensitivities(members.jobs), int(state["dimension"])
        if self.mechanism == "gaussian":
            share = 1 / len(scales) if self.adds == "share" else 1.0
            std = sqrt(share * float((scales**2).sum()))
            weight = float(gaussian.epsilon(moved.max() / std, self.delta))
            return {"epsilon_weight": weight, "epsilon_model": weight, "scale": std}
        if self.mechanism == "staircase":  # each sample moves its client's model by whole steps of that client's noise
            weight, scale = float((moved / scales).max()), float(scales.min())
        else:
            scale = float(scales.min())
            weight = laplace.pure_epsilon(float(moved.max()), scale)
        return {"epsilon_weight": weight, "epsilon_model": weight * sqrt(d), "scale": scale}


def _of(value: float | tuple[float, ...], client: int) -> float:
    """A client's own value of one for all or one each."""
    return value[client] if isinstance(value, tuple) else value
