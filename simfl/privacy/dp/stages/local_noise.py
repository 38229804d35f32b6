"""Noise that each client adds to its own update: Gaussian, Laplace, staircase; and shares of Laplace noise."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Floats, Job, Vectors
from simfl.privacy.certify.maps import (
    Bound,
    Clip,
    ClipCoordinates,
    Facts,
    Map,
    Noise,
    clip_norms,
    participants,
    same_weights,
)
from simfl.privacy.dp.mechanisms import gaussian, laplace, staircase
from simfl.privacy.dp.stages.central_gaussian import Norm, gaussian_loss
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage


@dataclass(frozen=True)
class LocalNoise(Stage):
    """Nobody is trusted: what a client sends is private by itself, whoever sees it and however it is added up."""

    adds_noise = Noise("client")
    columns = (NOT_FINITE,)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> Vectors:
        return add_noise(super().client(vectors, jobs, state, streams), jobs, self.sampler(vectors.shape[1], streams))

    @abstractmethod
    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], Floats]:
        """The noise of a job's update, (d,)."""


def add_noise(vectors: Vectors, jobs: tuple[Job, ...], noise: Callable[[Job], Floats]) -> Vectors:
    """The rows, (n, d), each with the noise of its job, (d,)."""
    sent = np.empty_like(vectors)
    for row, vector, job in zip(sent, vectors, jobs, strict=True):
        np.add(vector, noise(job), out=row, casting="same_kind")
    return sent


def noise_stream(streams: Streams, stage: str, job: Job) -> np.random.Generator:
    """The stream of a stage's noise in a job's update."""
    return streams(f"dp/{stage}", job.id)


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

    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], Floats]:
        std = self.std
        return lambda job: gaussian.sample(noise_stream(streams, "local_gaussian", job), std, dimension)

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        return {"sensitivity": self.clip_norm, "std": self.std}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return gaussian_loss(bound.l2, facts["std"])


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

    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], Floats]:
        scale = laplace.scale(self.clip_norm, self.epsilon)
        return lambda job: laplace.sample(noise_stream(streams, "local_laplace", job), scale, dimension)

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        scale = laplace.scale(self.clip_norm, self.epsilon)
        return {"sensitivity": self.clip_norm, "scale": scale, "update_epsilon": self.epsilon}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return Loss(pure=facts["update_epsilon"] * (bound.l1 / self.clip_norm))


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

    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], Floats]:
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


Sharers = Annotated[
    int | None,
    Field(ge=1, description="clients whose parts together are the noise asked for; null = those of a whole aggregate"),
]
Colluders = Annotated[int, Field(ge=0, description="clients whose parts do not count, since they tell them")]


@STAGES("laplace_shares")
@dataclass(frozen=True)
class LaplaceShares(Stage):
    """Updates are clipped in L1; each client adds a difference of two Gamma(1/n, clip_norm / epsilon) to it.

    n of them add up to Laplace noise; of fewer, epsilon is restated, and infinite for half of them, or where updates do
    not count the same. Sensitivity: clip_norm in L1. Adjacency: a client's update against none. It protects against
    those who see the models: shares are real numbers, which no field adds up, so that the server sees each single one;
    discrete_laplace is what fields add up. Reference: Goryczka and Xiong, "A comprehensive comparison of multiparty
    secure additions with differential privacy", TDSC 2017.
    """

    clip_norm: Annotated[float, Field(gt=0, description="the largest sum of an update's magnitudes")] = 1.0
    epsilon: Annotated[float, Field(gt=0, description="pure epsilon of one aggregate that holds all shares")] = 1.0
    sharers: Sharers = None
    colluders: Colluders = 0

    adds_noise = Noise("share")
    columns = (NOT_FINITE,)

    def resolve(self, setting: ScenarioView) -> Self:
        return self if self.sharers is not None else replace(self, sharers=participants(setting))

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n = same_weights(setting), self.sharers or 1
        if setting.secagg.field is not None or not setting.secagg.sums_whoever_comes:
            how = "adds in a field" if setting.secagg.field is not None else "does not add updates in clear"
            why = f"adds real numbers, but secagg: {setting.secagg.name} {how}"
            problems.append(("", f"{why}; use plain, or stage discrete_laplace"))
        if 2 * (n - self.colluders) <= n:
            most = (n - 1) // 2
            why = f"is {self.colluders}; half of {n} shares or fewer protect nothing; the nearest value is {most}"
            problems.append(("colluders", why))
        return problems

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.clip_norm, 1),)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> Vectors:
        scale, shape, d = laplace.scale(self.clip_norm, self.epsilon), 1 / (self.sharers or 1), vectors.shape[1]
        return add_noise(
            clip_norms(vectors, self.clip_norm, 1), jobs,
            lambda job: laplace.share(noise_stream(streams, "laplace_shares", job), scale, shape, d),
        )  # fmt: skip

    def start(self, dimension: int) -> Arrays:
        return {"dimension": np.int64(dimension)}

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        scale = laplace.scale(self.clip_norm, self.epsilon)
        shape = members.honest(self.colluders) / (self.sharers or 1)
        about = {"sensitivity": self.clip_norm, "scale": scale, "shape": shape, "sharers": float(members.n_summed)}
        return about | {"dimension": float(state["dimension"])}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        known = np.stack([facts[name] for name in ("sensitivity", "scale", "shape", "dimension")], axis=1)
        distinct, where = np.unique(np.nan_to_num(known), axis=0, return_inverse=True)
        each = [laplace.pure_epsilon(row[0], row[1], row[2], int(row[3])) for row in distinct.tolist()]
        return Loss(pure=np.array(each)[where.ravel()])
