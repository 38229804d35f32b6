"""Gaussian noise that the server adds to the sum, or to sums over rounds (DP-FTRL), perhaps with a clip norm that
follows the updates; and clipping alone.
"""

from dataclasses import dataclass, replace
from math import ceil, exp, hypot, sqrt
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Floats, Job, Vectors
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map, Noise, clip_norms, norms, of_sums, participants
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage

NOISE = Column("noise_std", "Noise", "number", "Standard deviation of the noise in each coordinate of the mean.", -1,
               None, shown=False)  # fmt: skip

Norm = Annotated[float, Field(gt=0, description="the largest L2 norm of an update, C; longer ones are scaled down")]
Multiplier = Annotated[
    float,
    Field(
        ge=0,
        description="z, standard deviation over clip norm of the noise in a sum; in tree_gaussian of a block of "
        "rounds, in adaptive_gaussian before a part is spent on its bits; 0 = none",
    ),
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


LEAST, LARGEST = 1e-30, 1e30
"""Norms between which C stays: updates and noise of these sizes are numbers of float32, and what they cost is known."""
STEEPEST = 500.0
"""The logarithm of a factor that leads from any such C to the largest; beyond 709 there is no number for it."""


@dataclass(frozen=True)
class ClippedWithBit(Map):
    """Clipped to the norm of the moment, as the stage says, whatever goes in, and beside it a bit of 1/2 or -1/2."""

    sparse = True
    per_client = True
    leads = True

    def bound(self, before: Bound, facts: Facts) -> Bound:
        return Bound(l2=np.hypot(facts.get("sensitivity", 1.0), 1.0))


@STAGES("adaptive_gaussian")
@dataclass(frozen=True)
class AdaptiveGaussian(Stage):
    """Beside its clipped update each client says whether it was short; C moves until a given share of them is.

    C becomes C exp(-rate (b - quantile)), b the noised share of updates whose length *before* clipping is at most C; a
    client clips to the C of the model that it has downloaded. It stays between 1e-30 and 1e30. Sensitivity: the
    largest C in the sum, and 1/2 of the bits, times an update's weight; together they cost what a noise multiplier z
    costs. What a protocol's rounding adds to either is counted besides: ``sensitivity`` is that with which noise of
    ``std`` costs as much. Adjacency: a client's update and bit against none. It protects against those who see the
    models. Reference: Andrew et al., "Differentially private learning with adaptive clipping", NeurIPS 2021, Algorithm
    1 and Theorem 1.
    """

    noise_multiplier: Multiplier = 1.0
    initial_norm: Annotated[
        float, Field(ge=LEAST, le=LARGEST, description="the clip norm before the first aggregation")
    ] = 0.1
    rate: Annotated[float, Field(gt=0, le=10, description="how fast the clip norm moves, in its logarithm")] = 0.2
    quantile: Annotated[float, Field(ge=0, le=1, description="share of updates that the norm is to leave whole")] = 0.5
    bit_std: Annotated[
        float | None,
        Field(gt=0, description="standard deviation of the noise in the count; null = a 20th of the clients in a sum"),
    ] = None
    max_weight: MaxWeight = None

    adds_noise = Noise("server", gaussian=True, fresh=True)
    public_state = True  # the norm follows from the noised count
    columns = (
        NOISE, NOT_FINITE,
        Column("clip_norm", "Clip norm", "number", "Norm to which updates are clipped.", 0, shown=False),
    )  # fmt: skip

    def resolve(self, setting: ScenarioView) -> Self:
        return self if self.bit_std is not None else replace(self, bit_std=participants(setting) / 20)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, least = of_sums(setting, self.max_weight), self.noise_multiplier / 2
        if self.noise_multiplier and (self.bit_std or 0) <= least:
            why = f"is {self.bit_std:g}, so that the bits alone cost more than the noise multiplier allows"
            problems.append(("bit_std", f"{why}; it must be above {least:g}"))
        return problems

    @property
    def update_multiplier(self) -> float:
        """What is left for the updates: (z^-2 - (2 bit_std)^-2)^-1/2."""
        z = self.noise_multiplier
        return 1 / sqrt(1 / z**2 - 1 / (2 * (self.bit_std or 0)) ** 2) if z else 0.0

    def length(self, dimension: int) -> int:
        return dimension + 1

    def start(self, dimension: int) -> Arrays:
        return {"since": np.zeros(1, dtype=np.int64), "norm": np.full(1, self.initial_norm)}

    server_maps = ()

    @property
    def maps(self) -> tuple[Map, ...]:
        return (ClippedWithBit(),)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> Vectors:
        most = _norms_of(jobs, state)
        bits = (norms(vectors) <= most) - np.float32(0.5)
        return np.concatenate([clip_norms(vectors, most), bits[:, None]], axis=1, dtype=np.float32)

    def server(self, vector: Vectors, members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        update, count = vector[:-1], float(vector[-1]) * members.divisor
        if self.noise_multiplier:
            rng, unit = streams("dp/adaptive", members.number), self.max_weight or 1.0
            count += unit * (self.bit_std or 0) * rng.standard_normal()
            std = self.update_multiplier * self._norm(members, state) * unit
            update = (update + gaussian.sample(rng, std / members.divisor, len(update))).astype(np.float32)
        share = 0.5 + count / (members.fixed or float(members.weights.sum()))
        step = min(-self.rate * (share - self.quantile), STEEPEST)
        norm = min(max(state["norm"][-1] * exp(step), LEAST), LARGEST)
        since = np.append(state["since"], members.number + 1)
        return update, {"since": since, "norm": np.append(state["norm"], norm)}

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        norm, unit = self._norm(members, state), self.max_weight or 1.0
        added = self.update_multiplier * norm * unit / members.divisor
        std = self.noise_multiplier * norm * unit
        sensitivity = norm
        if members.step and std:  # a rounded update of weight 1 and its rounded bit, each in units of its noise
            moved = (norm + members.rounding) / (self.update_multiplier * norm * unit)
            sensitivity = std * hypot(moved, members.step * ceil(0.5 / members.step) / ((self.bit_std or 0) * unit))
        return {"sensitivity": sensitivity, "std": std, "noise_std": added, "clip_norm": float(state["norm"][-1])}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        """Of the update and its bit, whose noise the multiplier has; infinite where anything has made them longer."""
        (link,), alone = self.maps, facts["sensitivity"]
        longer = bound.l2 > link.bound(bound, facts).l2
        return gaussian_loss(np.where(longer, np.inf, np.minimum(alone, bound.l2)), facts["std"])

    def _norm(self, members: Members, state: Arrays) -> float:
        """The largest norm to which a client in the sum has clipped."""
        return float(_norms_of(members.jobs, state).max(initial=0.0)) if members.jobs else float(state["norm"][-1])


def _norms_of(jobs: tuple[Job, ...], state: Arrays) -> Floats:
    """The clip norm that came with the model of each job, (n,)."""
    versions = np.fromiter((job.version for job in jobs), dtype=np.int64, count=len(jobs))
    return state["norm"][np.searchsorted(state["since"], versions, side="right") - 1]
