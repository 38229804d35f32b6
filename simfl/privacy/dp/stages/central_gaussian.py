"""Gaussian noise that the server adds to the sum, or to sums over rounds (DP-FTRL); and clipping alone."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Floats, Vectors
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map, Noise, of_sums
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage

NOISE = Column("noise_std", "Noise", "number", "Standard deviation of the noise in each coordinate of the mean.", -1,
               None, shown=False)  # fmt: skip

Norm = Annotated[float, Field(gt=0, description="the largest L2 norm of an update, C; longer ones are scaled down")]
Multiplier = Annotated[
    float, Field(ge=0, description="standard deviation of the noise in the sum over the clip norm, z; 0 = none")
]
MaxWeight = Annotated[
    float | None,
    Field(gt=0, description="the weight for which noise is made; null = 1, where samples do not weigh updates"),
]


@STAGES("central_gaussian")
@dataclass(frozen=True)
class CentralGaussian(Stage):
    """Updates are clipped to norm C; the server adds N(0, (z C)²) to their sum.

    Sensitivity: C in L2 and what a protocol's rounding adds to it, times an update's weight. Adjacency: a client's
    update against none. It protects against those who see the models; the server sees the sum without noise. Reference:
    McMahan et al., "Learning differentially private recurrent language models", ICLR 2018.
    """

    clip_norm: Norm = 1.0
    noise_multiplier: Multiplier = 1.0
    max_weight: MaxWeight = None

    adds_noise = Noise("server", gaussian=True, fresh=True)
    columns = (NOISE, NOT_FINITE)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return of_sums(setting, self.max_weight)

    @property
    def std(self) -> float:
        """Of the noise in a sum."""
        return self.noise_multiplier * self.clip_norm * (self.max_weight or 1.0)

    server_maps = ()

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.clip_norm),)

    def server(self, vector: Vectors, members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        if not self.std:
            return vector, state
        noise = gaussian.sample(streams("dp/central", members.number), self.std / members.divisor, len(vector))
        return (vector + noise).astype(np.float32), state

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        about = {"sensitivity": self.clip_norm + members.rounding, "rounding": members.rounding}
        return {**about, "std": self.std, "noise_std": self.std / members.divisor}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return gaussian_loss(bound.l2 + facts["rounding"], facts["std"])


def gaussian_loss(sensitivity: Any, std: Floats) -> Loss:
    """Of noise of each round's standard deviation, (rounds,); infinite where nothing was added.

    Also to updates that were clipped to 0: a stage may have released more than them.
    """
    mu = np.divide(sensitivity, std, out=np.full(len(std), np.inf), where=std != 0)
    return Loss(mu=mu)


@STAGES("clipping")
@dataclass(frozen=True)
class Clipping(Stage):
    """Updates are scaled down to a norm; without noise this protects nobody."""

    norm: Annotated[float, Field(gt=0, description="the largest norm of an update")] = 1.0
    order: Annotated[Literal[1, 2], Field(description="the norm: 1 = sum of magnitudes, 2 = Euclidean")] = 2

    columns = (NOT_FINITE,)

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.norm, self.order),)


@STAGES("tree_gaussian")
@dataclass(frozen=True)
class TreeGaussian(CentralGaussian):
    """Updates are clipped to norm C; the sum over all rounds so far gets the noise of at most log2 of them.

    The t-th aggregate completes the sum of the last 2^(number of times that 2 divides t) ones, whose noise N(0, (z C)²)
    stays in every later sum over rounds that it is a part of. Sensitivity: C in L2 and what a protocol's rounding adds
    to it at most in any aggregate so far, times an update's weight, in each such block that holds it. Adjacency: a
    client's update against none. It protects against those who see the models. Participation may follow any rule: no
    sampling is claimed. Reference: Kairouz et al., "Practical and private (deep) learning without sampling or
    shuffling", ICML 2021, Algorithm 1. ``std`` is that of the noise of each block.
    """

    adds_noise = Noise("server", gaussian=True)

    maps = CentralGaussian.maps
    server_maps = ()

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, code = super().check(setting), setting.compression
        if code.subsamples and not setting.training.asynchronous:
            why = f"takes off the noise of earlier rounds, but compression: {code.name} sends other coordinates in each"
            problems.append(("", f"{why}; use central_gaussian or another compression"))
        return problems

    def start(self, dimension: int) -> Arrays:
        return {"aggregates": np.int64(0), "rounding": np.float64(0)}

    def server(self, vector: Vectors, members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        t = int(state["aggregates"]) + 1
        after = {"aggregates": np.int64(t), "rounding": np.float64(_most_rounding(members, state))}
        if not self.std:
            return vector, after
        noise = np.zeros(len(vector))
        for sign, blocks in ((1, _blocks(t) - _blocks(t - 1)), (-1, _blocks(t - 1) - _blocks(t))):
            for level, place in sorted(blocks):
                std = self.std / members.divisor
                noise += sign * gaussian.sample(streams("dp/tree", level, place), std, len(vector))
        return (vector + noise).astype(np.float32), after

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        t = int(state["aggregates"]) + 1
        changed = len(_blocks(t) ^ _blocks(t - 1))
        noise_std = self.std * changed**0.5 / members.divisor
        rounding = _most_rounding(members, state)
        about = {"sensitivity": self.clip_norm + rounding, "rounding": rounding, "std": self.std}
        return {**about, "noise_std": noise_std, "span": float(t & -t)}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        return replace(super().loss(facts, bound), span=np.nan_to_num(facts["span"]).astype(np.int64))


def _most_rounding(members: Members, state: Arrays) -> float:
    """What rounding adds to an update in this aggregate or an earlier one, whose sums a block may hold, too."""
    return max(members.rounding, float(state.get("rounding", 0.0)))


def _blocks(t: int) -> set[tuple[int, int]]:
    """The blocks (level, place) of 2^level aggregates each that make up the first t."""
    return {(level, (t >> level + 1) << 1) for level in range(t.bit_length()) if t >> level & 1}
