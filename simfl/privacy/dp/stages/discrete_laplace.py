"""Discrete Laplace noise, a share from each client, in the field of a secure sum."""

from dataclasses import dataclass, replace
from math import floor, log2, sqrt
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView, tolerance_problem
from simfl.core.types import Arrays, Integers, Job, Vectors
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map, Noise, Rounded, clip_norms, participants, same_weights
from simfl.privacy.dp.mechanisms import discrete_laplace
from simfl.privacy.dp.stages.central_gaussian import NOISE
from simfl.privacy.dp.stages.discrete_noise import round_within_l1, sum_bits
from simfl.privacy.dp.stages.local_noise import Colluders, Sharers, noise_stream
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage

FINEST = 16
"""Binary digits after the point, if nobody says otherwise."""
REACH = 12
"""Scales of the noise that a sum has room for."""


class Steps(NamedTuple):
    """Of updates of d coordinates: their largest L1 norm, whole, and the scale of all the noise, in steps."""

    l1: int
    scale: float


@STAGES("discrete_laplace")
@dataclass(frozen=True)
class DiscreteLaplace(Stage):
    """Updates are clipped in L1 and become whole numbers of steps; each client adds a Polya share of discrete Laplace.

    n shares, each the difference of two negative binomial variables of shape 1/n, add up to noise with probabilities
    proportional to e^(-|k| epsilon / L1); of fewer, epsilon is restated. Updates are rounded first, at random without
    bias until they are short enough, so that rounding is in the sensitivity: clip_norm and half the root of d steps, in
    L1. Adjacency: a client's update against none. It protects against the server, too. Reference: Goryczka and Xiong,
    "A comprehensive comparison of multiparty secure additions with differential privacy", TDSC 2017.
    """

    clip_norm: Annotated[float, Field(gt=0, description="the largest sum of an update's magnitudes")] = 1.0
    epsilon: Annotated[float, Field(gt=0, description="pure epsilon of one aggregate that holds all shares")] = 1.0
    sharers: Sharers = None
    colluders: Colluders = 0
    fraction_bits: Annotated[
        int | None,
        Field(ge=0, le=60, description="a step is 2^-fraction_bits; null = 16, or what the field has room for"),
    ] = None

    adds_noise = Noise("share", field=True)
    whole = True
    columns = (NOISE, NOT_FINITE)

    def resolve(self, setting: ScenarioView) -> Self:
        n = participants(setting) if self.sharers is None else self.sharers
        shared = replace(self, sharers=n)
        finest = shared._finest(setting)
        bits = min(finest, FINEST) if self.fraction_bits is None and finest is not None else self.fraction_bits
        return replace(shared, fraction_bits=bits if bits is None else max(bits, 0))

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n = same_weights(setting), self.sharers or 1
        finest = self._finest(setting)
        if finest is None:
            why = f"adds noise in a field, but secagg: {setting.secagg.name} adds real numbers"
            fix = "use one that adds in a field, as secagg, or stage laplace_shares"
            return [*problems, ("", f"{why}; {fix}")]
        if (self.fraction_bits or 0) > finest:
            nearest = f"the nearest value is {finest}" if finest >= 0 else "no step is large enough; clip at less"
            why = f"is {self.fraction_bits}, which leaves {n} updates and their noise no room in the field; {nearest}"
            problems.append(("fraction_bits", why))
        if self.colluders >= n:
            why = f"is {self.colluders}, all of the {n} sharers; the nearest value is {n - 1}"
            problems.append(("colluders", why))
        elif beyond := tolerance_problem(setting, self.colluders):
            problems.append(("colluders", beyond))
        return problems

    def _finest(self, setting: ScenarioView) -> int | None:
        """The most binary digits with which updates and noise hardly ever wrap around; None without a field."""
        bits, n = sum_bits(setting.secagg), self.sharers or 1
        return None if bits is None else floor(bits - 1 - log2(self.clip_norm * (n + REACH / self.epsilon)))

    @property
    def fine(self) -> float:
        """Steps in 1."""
        return 2.0 ** (self.fraction_bits or 0)

    def steps(self, dimension: int) -> Steps:
        """For updates of so many coordinates."""
        l1 = max(1, floor(self.clip_norm * self.fine + sqrt(dimension) / 2))
        return Steps(l1, l1 / self.epsilon)

    def start(self, dimension: int) -> Arrays:
        return {"dimension": np.int64(dimension)}

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.clip_norm, 1), Rounded())

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> NDArray[Any]:
        n, d = vectors.shape
        sent = np.zeros((n, d), dtype=np.int64)
        if not d:
            return sent
        to = self.steps(d)
        for out, vector, job in zip(sent, clip_norms(vectors, self.clip_norm, 1), jobs, strict=True):
            exact = vector.astype(np.float64) * self.fine
            out[:] = round_within_l1(exact, to.l1, streams("dp/rounding", job.id)) + self.noise(job, d, streams)
        return sent

    def noise(self, job: Job, dimension: int, streams: Streams) -> Integers:
        """A client's share, int64 (d,)."""
        scale, shape = self.steps(dimension).scale, 1 / (self.sharers or 1)
        return discrete_laplace.share(noise_stream(streams, "discrete_laplace", job), scale, shape, dimension)

    def server(self, vector: NDArray[Any], members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        return (vector / self.fine).astype(np.float32), state

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        dimension = max(int(state["dimension"]), 1)
        to, n = self.steps(dimension), self.sharers or 1
        std = sqrt(discrete_laplace.variance(to.scale, members.squares / n)) / self.fine / members.divisor
        return {
            "l1": float(to.l1), "scale": to.scale, "shape": members.honest(self.colluders) / n,
            "dimension": float(dimension), "noise_std": std,
        }  # fmt: skip

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        known = np.stack([facts[name] for name in ("l1", "scale", "shape", "dimension")], axis=1)
        distinct, where = np.unique(np.nan_to_num(known), axis=0, return_inverse=True)
        each = [
            discrete_laplace.pure_epsilon(int(l1), scale, shape, int(d)) for l1, scale, shape, d in distinct.tolist()
        ]
        return Loss(pure=np.array(each)[where.ravel()])
