"""Updates as whole numbers of bounded length, with noise in the field of a secure sum: discrete Gaussian, Skellam,
and Skellam noise of which exactly as much remains as was asked for, whoever drops out (XNoise).

Clip, rotate, scale, round at random until the length is bounded: Kairouz, Liu and Steinke, "The distributed discrete
Gaussian mechanism", ICML 2021, Algorithm 1 and Proposition 22. What wraps around in the field costs accuracy only.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log, sqrt
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.rng import Streams, generator
from simfl.core.scenario_view import ScenarioView, tolerance_problem
from simfl.core.types import Arrays, Floats, Integers, Job, Vectors
from simfl.privacy.certify.maps import Bound, Clip, Facts, Map, Noise, Rounded, clip_norms, participants, same_weights
from simfl.privacy.dp.losses import ORDERS
from simfl.privacy.dp.mechanisms import discrete_gaussian, skellam
from simfl.privacy.dp.stages.central_gaussian import NOISE, Multiplier, Norm
from simfl.privacy.dp.stages.local_noise import Colluders, Sharers, noise_stream
from simfl.privacy.stage import NOT_FINITE, STAGES, Loss, Members, Stage

BETA = exp(-0.5)
"""How often a rounding of the longest update is repeated at most."""
BITS = 20
"""Of a sum, if nobody says otherwise."""
CHUNK = 1 << 21
"""Numbers that are rotated at a time."""


class Points(NamedTuple):
    """The whole numbers that stand for updates of d real ones, in d' coordinates.

    Attributes:
        dimension: d', a power of two.
        scale: steps in 1.
        l1, l2: the largest norms, in steps.
    """

    dimension: int
    scale: float
    l1: float
    l2: float


@dataclass(frozen=True)
class IntegerGrid:
    """How fine whole numbers are, and how long they can be.

    Args:
        norm: the largest L2 norm of an update, C.
        clients: in a sum, n.
        std: of each one's noise, before scaling.
        bits: the sum has 2^bits values, b.
        deviations: of a coordinate of the sum that stay within them, kappa.
    """

    norm: float
    clients: int
    std: float
    bits: int
    deviations: float

    @property
    def possible(self) -> bool:
        """Whether the sum has values enough for the roundings alone."""
        return bool(2.0 ** (2 * self.bits) > self.clients * self.deviations**2)

    def points(self, dimension: int) -> Points:
        """For updates of so many coordinates, at least one."""
        d, c, n, k = 1 << (dimension - 1).bit_length(), self.norm, self.clients, self.deviations
        budget = sqrt(2.0 ** (2 * self.bits) - n * k**2)
        s = budget / (2 * k * sqrt(c**2 * n**2 / d + n * self.std**2))
        often = s**2 * c**2 + d / 4 + sqrt(2 * log(1 / BETA)) * (s * c + sqrt(d) / 2)
        l2 = sqrt(min((s * c + sqrt(d)) ** 2, often))
        return Points(d, s, l2 * min(sqrt(d), l2), l2)


def hadamard(rows: Floats) -> Floats:
    """Rows (n, 2^j) times the orthonormal Hadamard matrix, which is its own inverse."""
    n, d = rows.shape
    h = 1
    while h < d:
        pairs = rows.reshape(n, -1, 2, h)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(n, d)
        h *= 2
    return rows / sqrt(d)


def round_within_l2(row: Floats, most: float, rng: np.random.Generator) -> Integers:
    """Whole numbers beside these, (d,), up or down at random without bias, until their L2 norm is at most ``most``."""
    low = np.floor(row)
    while True:
        candidate = low + (rng.random(len(row)) < row - low)
        if float(candidate @ candidate) <= most**2:
            return candidate.astype(np.int64)


def round_within_l1(row: Floats, most: int, rng: np.random.Generator) -> Integers:
    """The same with their L1 norm at most ``most``, half the root of d above that of the row or more."""
    low = np.floor(row)
    while True:
        candidate = low + (rng.random(len(row)) < row - low)
        if np.abs(candidate).sum() <= most:
            return candidate.astype(np.int64)


@dataclass(frozen=True)
class Distributed(Stage):
    """Keys and arithmetic of mechanisms whose noise is whole numbers, a part from each client."""

    clip_norm: Norm = 1.0
    noise_multiplier: Multiplier = 1.0
    sharers: Sharers = None
    colluders: Colluders = 0
    bits: Annotated[
        int | None, Field(ge=1, le=62, description="a sum has 2^bits values; null = 20, if the field has room")
    ] = None
    deviations: Annotated[
        float, Field(gt=0, description="standard deviations of a sum's coordinate that do not wrap around")
    ] = 4.0

    adds_noise = Noise("share", field=True)
    whole = True
    columns = (
        NOISE, NOT_FINITE,
        Column("sharers", "Shares of noise", "count", "Clients whose part of the noise is in the sum.", 1, None,
               shown=False),
    )  # fmt: skip

    def resolve(self, setting: ScenarioView) -> Self:
        """With the number of sharers, and bits for which the field has room."""
        n = participants(setting) if self.sharers is None else self.sharers
        most = sum_bits(setting.secagg)
        return replace(self, sharers=n, bits=min(most, BITS) if self.bits is None and most else self.bits)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """What is impossible."""
        problems, protocol = same_weights(setting), setting.secagg
        most = sum_bits(protocol)
        if most is None:
            why = f"adds noise in a field, but secagg: {protocol.name} adds real numbers"
            return [*problems, ("", f"{why}; use one that adds in a field, as secagg")]
        if (self.bits or 0) > most:
            why = (
                f"is {self.bits}, but sums of secagg: {protocol.name} have room for {most}; the nearest value is {most}"
            )
            problems.append(("bits", why))
        if not self.grid.possible:
            n, k = self.sharers, self.deviations
            why = f"is {self.bits}, but 2^(2 bits) must be above sharers deviations² = {(n or 1) * k**2:g}; use more"
            problems.append(("bits", why))
        if self.colluders >= (n := self.sharers or 1):
            why = f"is {self.colluders}, all of the {n} sharers; the nearest value is {n - 1}"
            problems.append(("colluders", why))
        elif beyond := tolerance_problem(setting, self.colluders):
            problems.append(("colluders", beyond))
        return problems

    @property
    def share(self) -> float:
        """The variance of one client's part of the noise."""
        return (self.noise_multiplier * self.clip_norm) ** 2 / (self.sharers or 1)

    @cached_property
    def grid(self) -> IntegerGrid:
        """Of whole numbers with one client's part of the noise."""
        return IntegerGrid(self.clip_norm, self.sharers or 1, sqrt(self.share), self.bits or 1, self.deviations)

    def length(self, dimension: int) -> int:
        """A power of two."""
        return self.grid.points(dimension).dimension if dimension else 0

    def start(self, dimension: int) -> Arrays:
        """The length of an update, to which sums come back."""
        return {"dimension": np.int64(dimension)}

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], state: Arrays, streams: Streams) -> NDArray[Any]:
        """Clipped, rotated, rounded and noised: int64 (n, d')."""
        n, dimension = vectors.shape
        if not dimension:
            return np.zeros((n, 0), dtype=np.int64)
        to = self.grid.points(dimension)
        sent = np.zeros((n, to.dimension), dtype=np.int64)
        sent_vectors, at_once = clip_norms(vectors, self.clip_norm), max(1, CHUNK // to.dimension)
        for first in range(0, n, at_once):
            some = slice(first, first + at_once)
            wide = np.zeros((len(sent_vectors[some]), to.dimension))
            wide[:, :dimension] = sent_vectors[some]
            turned = hadamard(wide * _signs(streams, to.dimension)) * to.scale
            for out, row, job in zip(sent[some], turned, jobs[some], strict=True):
                out[:] = round_within_l2(row, to.l2, streams("dp/rounding", job.id)) + self.noise(job, to, streams)
        return sent

    @abstractmethod
    def noise(self, job: Job, to: Points, streams: Streams) -> Integers:
        """A client's part of the noise, int64 (d',)."""

    def server(self, vector: NDArray[Any], members: Members, state: Arrays, streams: Streams) -> tuple[Vectors, Arrays]:
        """The mean of the updates, (d,), of that of their whole numbers, (d',)."""
        if not len(vector):
            return vector, state
        dimension = int(state["dimension"])
        to = self.grid.points(dimension)
        exact = vector - self.surplus(members, to) / members.divisor
        turned = hadamard(exact[None] / to.scale)[0] * _signs(streams, to.dimension)
        return turned[:dimension].astype(np.float32), state

    def surplus(self, members: Members, to: Points) -> Any:
        """Noise that is known and taken off the sum, int64 (d',), or 0."""
        return 0

    def remaining_variance(self, members: Members) -> float:
        """The variance that each of those in the sum leaves there, in multiples of :attr:`share`."""
        return 1.0

    def facts(self, members: Members, state: Arrays) -> dict[str, float]:
        """Sensitivities and what each leaves of noise, in steps."""
        m, dimension = members.n_summed, max(int(state["dimension"]), 1)
        to, remaining = self.grid.points(dimension), self.remaining_variance(members)
        std = sqrt(self.share * remaining * members.squares) / members.divisor
        return {
            "l1": to.l1, "l2": to.l2, "variance": self.share * remaining * to.scale**2,
            "dimension": float(to.dimension), "honest": float(members.honest(self.colluders)), "sharers": float(m),
            "noise_std": std,
        }  # fmt: skip

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.clip_norm), Rounded())

    def loss(self, facts: Facts, bound: Bound) -> Loss:
        """The bound of the Renyi divergences with those who really shared."""
        names = ("l1", "l2", "variance", "dimension", "honest")
        known = np.nan_to_num(np.stack([facts[name] for name in names], axis=1))
        distinct, where = np.unique(known, axis=0, return_inverse=True)
        each = np.array([self.divergences(*row) if row[1] else np.zeros(len(ORDERS)) for row in distinct.tolist()])
        return Loss(rdp=each[where.ravel()])

    @abstractmethod
    def divergences(self, l1: float, l2: float, variance: float, dimension: float, honest: float) -> Floats:
        """For each of the orders; of what :meth:`facts` says, where ``honest`` clients add ``variance`` each."""


def sum_bits(protocol: Any) -> int | None:
    """Bits of the sums that a protocol can hold; None where it adds real numbers."""
    return None if protocol.field is None else (protocol.field // protocol.factor).bit_length() - 1


def _signs(streams: Streams, dimension: int) -> Floats:
    """Of the rotation, which is public and the same in every round, (d',)."""
    return np.where(streams("dp/rotation").random(dimension) < 0.5, -1.0, 1.0)


@STAGES("discrete_gaussian")
@dataclass(frozen=True)
class DiscreteGaussian(Distributed):
    """Updates are clipped to norm C and become whole numbers; each client adds discrete Gaussian noise of (z C)² / n.

    Sums of discrete Gaussians are none, but close to one; epsilon counts how close, and who is there. Sensitivity: that
    of the rounded updates, C and a little. Adjacency: a client's update against none. It protects against the server,
    too. Reference: Kairouz, Liu and Steinke, "The distributed discrete Gaussian mechanism", ICML 2021, Theorem 1.
    """

    maps = Distributed.maps

    def noise(self, job: Job, to: Points, streams: Streams) -> Integers:
        return discrete_gaussian.sample(
            noise_stream(streams, "discrete_gaussian", job), self.share * to.scale**2, to.dimension
        )

    def divergences(self, l1: float, l2: float, variance: float, dimension: float, honest: float) -> Floats:
        if not variance * honest:
            return np.full(len(ORDERS), np.inf)
        return discrete_gaussian.rdp(ORDERS, l1, l2, int(dimension), int(honest), variance)


@STAGES("skellam")
@dataclass(frozen=True)
class Skellam(Distributed):
    """Updates are clipped to norm C and become whole numbers; each client adds Skellam noise of variance (z C)² / n.

    Parts add up to Skellam noise, whoever is missing; epsilon is of those who are there. Sensitivity: that of the
    rounded updates, C and a little. Adjacency: a client's update against none. It protects against the server, too.
    Reference: Agarwal, Kairouz and Liu, "The Skellam mechanism", NeurIPS 2021, Theorem 3.5.
    """

    maps = Distributed.maps

    def noise(self, job: Job, to: Points, streams: Streams) -> Integers:
        return skellam.sample(noise_stream(streams, "skellam", job), self.share * to.scale**2, to.dimension)

    def divergences(self, l1: float, l2: float, variance: float, dimension: float, honest: float) -> Floats:
        if not variance * honest:
            return np.full(len(ORDERS), np.inf)
        slack = skellam.slack(honest * dimension * (1 + self.seeds))
        return skellam.rdp(ORDERS, l1, l2, variance * honest) + slack


SEED = 32
"""Bytes of a part's seed."""


@STAGES("xnoise")
@dataclass(frozen=True)
class XNoise(Skellam):
    """Each client adds noise for the case that T others drop out, in T + 1 parts; those not needed are taken off.

    Of n clients each adds variances s²/n and s²/((n-j+1)(n-j)), j = 1 ... T, s = z C; where D <= T are missing, the
    seeds of the parts j > D, which clients share with one another beside those of their masks, are opened after the
    upload, of those who have failed since from shares, and the server draws these parts again and takes them off.
    Exactly s² remains. Where more are missing all parts stay, and epsilon is of what there is. Sensitivity,
    adjacency and observer as of skellam. Reference: Jiang, Wang and Chen, "Efficient federated learning with
    dropout-resilient differential privacy", EuroSys 2024.
    """

    tolerance: Annotated[int, Field(ge=1, description="clients that may drop out, T")] = 1

    maps = Skellam.maps

    @property
    def seeds(self) -> int:  # type: ignore[override]  # a constant of other stages
        """One of each part that may have to be taken off."""
        return self.tolerance

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems, n, protocol = super().check(setting), self.sharers or 1, setting.secagg
        if self.tolerance >= n:
            problems.append(
                ("tolerance", f"is {self.tolerance}, but there are {n} sharers; the nearest value is {n - 1}")
            )
        if protocol.field is not None and not protocol.opens_seeds:
            why = f"opens seeds after the upload, which secagg: {protocol.name} does not; use secagg or secagg_plus"
            problems.append(("", why))
        if not setting.selection.fixed_size or setting.selection.k != n:
            problems.append(("sharers", f"is {n}; it must be the number of clients that are selected, and that fixed"))
        return problems

    def parts(self) -> Floats:
        """The variances of a client's parts, in multiples of the first, (T + 1,)."""
        n, j = self.sharers or 1, np.arange(1, self.tolerance + 1)
        return np.append(1.0, n / ((n - j + 1) * (n - j)))

    def opened_seeds(self, members: Members) -> int:
        """How many seeds of each client in the sum were opened; of a log, as many as drops did not happen."""
        if members.opened is not None:
            counted = zip(members.opened, members.weights.tolist(), strict=True) if members.opened else ()
            return max((len(seeds) for seeds, weight in counted if weight), default=0)
        missing = (self.sharers or 1) - members.n_summed
        return self.tolerance - missing if 0 <= missing <= self.tolerance else 0

    def remaining_variance(self, members: Members) -> float:
        """Of the parts whose seeds nobody has opened: what is said to remain is what was not taken off."""
        return float(self.parts()[: self.tolerance + 1 - self.opened_seeds(members)].sum())

    def secrets(self, job: Job, streams: Streams) -> tuple[bytes, ...]:
        return tuple(streams("dp/xnoise", job.id, j).bytes(SEED) for j in range(1, self.tolerance + 1))

    def noise(self, job: Job, to: Points, streams: Streams) -> Integers:
        total = super().noise(job, to, streams)
        for j, seed in enumerate(self.secrets(job, streams), 1):
            total += self._part(seed, j, to)
        return total

    def surplus(self, members: Members, to: Points) -> Integers:
        """Of what the opened seeds stand for; the last one of each is that of the last part."""
        total = np.zeros(to.dimension, dtype=np.int64)
        counted = zip(members.opened, members.weights.tolist(), strict=True) if members.opened else ()
        for seeds in (seeds for seeds, weight in counted if weight):
            for j, seed in enumerate(seeds, 1 + self.tolerance - len(seeds)):
                total += self._part(seed, j, to)
        return total

    def _part(self, seed: bytes, j: int, to: Points) -> Integers:
        """What a seed stands for."""
        variance = self.share * self.parts()[j] * to.scale**2
        return skellam.sample(generator(seed), float(variance), to.dimension)
