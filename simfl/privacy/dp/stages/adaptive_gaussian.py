"""Central Gaussian noise with a clip norm that follows the updates."""

from dataclasses import dataclass, replace
from math import ceil, exp, hypot, sqrt
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Floats, Job, Vectors
from simfl.privacy.certify.maps import Bound, Facts, Map, Noise, clip_norms, norms, of_sums, participants
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.dp.stages.central_gaussian import NOISE, MaxWeight, Multiplier, gaussian_loss
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage

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
        sensitivity = norm if not (members.step and std) else std * self._mu(members, norm)
        return {"sensitivity": sensitivity, "std": std, "noise_std": added, "clip_norm": float(state["norm"][-1])}

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        """Of the update and its bit, whose noise the multiplier has; infinite where anything has made them longer."""
        (link,), alone = self.maps, facts["sensitivity"]
        longer = bound.l2 > link.bound(bound, facts).l2
        return gaussian_loss(np.where(longer, np.inf, np.minimum(alone, bound.l2)), facts["std"])

    def _mu(self, members: Members, norm: float) -> float:
        """What a rounded update of weight 1 and its rounded bit move, each in units of its noise, together."""
        unit, bit = self.max_weight or 1.0, members.step * ceil(0.5 / members.step)
        moved = (norm + members.rounding) / (self.update_multiplier * norm * unit)
        return hypot(moved, bit / ((self.bit_std or 0) * unit))

    def _norm(self, members: Members, state: Arrays) -> float:
        """The largest norm to which a client in the sum has clipped."""
        return float(_norms_of(members.jobs, state).max(initial=0.0)) if members.jobs else float(state["norm"][-1])


def _norms_of(jobs: tuple[Job, ...], state: Arrays) -> Floats:
    """The clip norm that came with the model of each job, (n,)."""
    versions = np.fromiter((job.version for job in jobs), dtype=np.int64, count=len(jobs))
    return state["norm"][np.searchsorted(state["since"], versions, side="right") - 1]
