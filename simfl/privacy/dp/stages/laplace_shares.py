"""Laplace noise of which each client adds a share."""

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Job, Vectors
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map, Noise, clip_norms, participants, same_weights
from simfl.privacy.dp.mechanisms import laplace
from simfl.privacy.dp.stages.local_noise import add_noise, noise_stream
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage

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
