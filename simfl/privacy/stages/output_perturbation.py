"""Output perturbation of strongly convex models with shares of Laplace noise, as PrivacyFL has it.

A client that minimises the mean of 1-Lipschitz losses plus alpha/2 |w|^2 over k samples x, |x| <= R, moves its w by at
most 2 R / (k alpha) in the Euclidean norm when one sample is replaced (Chaudhuri, Monteleoni and Sarwate, JMLR 2011,
Corollary 8), and the mean of n clients by an n-th of that.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import Column
from simfl.privacy.base import STAGES, Members, Stage
from simfl.privacy.mechanisms import laplace
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

    With ``adds: whole`` each adds a whole Laplace variable, which is what the n - 1 attack leaves of it.
    ``published`` is the scale of the publication, 2 R / (n k alpha epsilon), which is meant for the mean of the models
    but added to each before they are averaged: n times too little. ``calibrated`` is n times that, so that every
    weight of the mean is epsilon-private against replacing one sample. n are the clients in the sum. Clients that hold
    nothing new send the same noise again. Reference: Mugunthan, MIT 2022, sections 2.2.3 and 5.3.
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

    columns = (
        Column("epsilon_weight", "ε of a weight", "number",
               "Pure epsilon of one weight of this round's mean, for one replaced sample, as the noise really is.", -1,
               "sum", shown=False),
        Column("epsilon_model", "ε of the model", "number",
               "Pure epsilon of this round's whole mean, for one replaced sample; rounds add up.", -1, "sum"),
    )  # fmt: skip
    example = {"epsilon": 1.0, "samples": 30}

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        problems = []
        for key, value in (("epsilon", self.epsilon), ("samples", self.samples)):
            if isinstance(value, tuple) and len(value) != setting.clients:
                problems.append((key, f"has {len(value)} values for {setting.clients} clients"))
        if len(set(setting.training.weights(np.array([1, 2, 2]), np.array([0, 0, 3])).tolist())) > 1:
            problems.append(("", "is for a mean in which all clients count the same; use weighting: equal"))
        return problems

    def start(self, dimension: int) -> Arrays:
        return {"dimension": np.int64(dimension)}

    def client(
        self, vectors: NDArray[np.float32], jobs: tuple[Job, ...], state: Arrays, streams: Streams
    ) -> NDArray[np.float32]:
        n, size = vectors.shape
        scales = self.scales(jobs)
        sent = vectors.copy()
        for i, (job, scale) in enumerate(zip(jobs, scales.tolist(), strict=True)):
            rng = streams("output_perturbation", self._data_of(job.version), job.client)
            sent[i] += laplace.share(rng, scale, 1 / n if self.adds == "share" else 1.0, size).astype(np.float32)
        return sent

    def scales(self, jobs: tuple[Job, ...]) -> NDArray[np.float64]:
        """The scale of the Laplace noise of which each client adds a share, (n,)."""
        spread = self.sensitivities(jobs) / np.array([_of(self.epsilon, job.client) for job in jobs])
        return spread / len(jobs) if self.noise_scale == "published" else spread

    def sensitivities(self, jobs: tuple[Job, ...]) -> NDArray[np.float64]:
        """By how much, in the Euclidean norm, one sample moves each client's model, (n,)."""
        held = [_of(self.samples, job.client) + self.new * self._data_of(job.version) for job in jobs]
        return 2 * self.radius / (np.array(held) * self.alpha)

    def _data_of(self, version: int) -> int:
        """The latest round, up to this version, that brought new samples."""
        return version if self.rounds is None else min(version, self.rounds - 1)

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        """The pure epsilons of the mean, with the least scale of all clients: more noise of others only helps."""
        scale, most = self.scales(members.jobs).min(), self.sensitivities(members.jobs).max()
        weight = laplace.pure_epsilon(most, scale)
        return {"epsilon_weight": weight, "epsilon_model": weight * float(np.sqrt(state["dimension"])), "scale": scale}


def _of(value: float | tuple[float, ...], client: int) -> float:
    """A client's own value of one for all or one each."""
    return value[client] if isinstance(value, tuple) else value
