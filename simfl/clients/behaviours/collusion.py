"""Attackers who agree on one update that statistics of the honest ones hide."""

from abc import abstractmethod
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, Attacker, AttackView
from simfl.core.types import Floats, Vectors


@CLIENT_AGENTS("alie")
@dataclass(frozen=True)
class ALittleIsEnough(Attacker):
    """All send the mean of their own updates less z standard deviations of them in each coordinate: the most by which
    enough honest updates still lie further out. They know their own updates and how many are in the sum.

    z is the normal quantile of (n - m - s) / (n - m) for n updates, m attackers and s = floor(n / 2 + 1) - m honest
    ones that they need; one attacker alone sees no deviation and sends its update.

    Reference: Baruch, Baruch and Goldberg, "A little is enough: circumventing defenses for distributed learning",
    NeurIPS 2019.
    """

    z: Annotated[float | None, Field(ge=0, description="standard deviations; null = the paper's z_max")] = None

    def sends(self, view: AttackView) -> Vectors:
        trained = view.deltas.astype(np.float64)
        z = z_max(view.updates, len(trained)) if self.z is None else self.z
        return np.tile((trained.mean(axis=0) - z * trained.std(axis=0)).astype(np.float32), (len(trained), 1))


def z_max(n: int, m: int) -> float:
    """The z of :class:`ALittleIsEnough`; where attackers need no honest update, that of needing one."""
    honest = n - m
    needed = max(n // 2 + 1 - m, 1)
    return max(NormalDist().inv_cdf((honest - needed) / honest), 0.0) if honest > needed else 0.0


@CLIENT_AGENTS("inner_product")
@dataclass(frozen=True)
class InnerProduct(Attacker):
    """All send the mean of the honest updates times minus a factor, so that the aggregate points away from it. They
    know all updates of the sum.

    Reference: Xie, Koyejo and Gupta, "Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation",
    UAI 2020.
    """

    factor: Annotated[float, Field(gt=0, description="the paper's epsilon; small ones pass Krum, large ones do not")]

    omniscient = True
    example = {"factor": 0.5}

    def sends(self, view: AttackView) -> Vectors:
        """Without any honest update in the sum theirs stand for them."""
        honest = view.others if len(view.others) else view.deltas
        mean = honest.mean(axis=0, dtype=np.float64)
        return np.tile((-self.factor * mean).astype(np.float32), (len(view.deltas), 1))


@dataclass(frozen=True)
class _Distances(Attacker):
    """What attacks share that go as far from the mean as distances between updates allow."""

    perturbation: Annotated[
        Literal["std", "sign", "unit"],
        Field(description="against the standard deviation in each coordinate, the mean's signs, or its direction"),
    ] = "std"
    knows: Annotated[
        Literal["all", "own"], Field(description="all honest updates of the sum, or only what attackers have trained")
    ] = "all"

    @property
    def omniscient(self) -> bool:  # type: ignore[override]
        """Whether it knows all."""
        return self.knows == "all"

    def sends(self, view: AttackView) -> Vectors:
        """Without any honest update in the sum theirs stand for them."""
        known = (view.others if len(view.others) else view.deltas).astype(np.float64)
        mean = known.mean(axis=0)
        away = -known.std(axis=0) if self.perturbation == "std" else -np.sign(mean)
        if self.perturbation == "unit":
            away = -mean / (float(np.linalg.norm(mean)) or 1.0)
        gamma = self._gamma(known - mean, away) if away.any() else 0.0
        return np.tile((mean + gamma * away).astype(np.float32), (len(view.deltas), 1))

    @abstractmethod
    def _gamma(self, deviations: Floats, away: Floats) -> float:
        """The largest multiple of a vector (d,) that the distances allow, of updates less their mean, (n, d)."""


@CLIENT_AGENTS("min_max")
@dataclass(frozen=True)
class MinMax(_Distances):
    """All send the mean plus the largest multiple of a perturbation that is no further from any update than the two
    updates are that are furthest apart. They know all honest updates, or only what they have trained themselves.

    Reference: Shejwalkar and Houmansadr, "Manipulating the Byzantine", NDSS 2021 (Min-Max; searched there by halving).
    """

    def _gamma(self, deviations: Floats, away: Floats) -> float:
        squares = (deviations**2).sum(axis=1)
        most, along, length = float(_square_distances(deviations).max()), deviations @ away, float(away @ away)
        return float(((along + np.sqrt(along**2 + length * np.maximum(most - squares, 0))) / length).min())


@CLIENT_AGENTS("min_sum")
@dataclass(frozen=True)
class MinSum(_Distances):
    """As ``min_max``, but the sum of its squared distances to all updates is no larger than that of any honest one.

    Reference: as there (Min-Sum).
    """

    def _gamma(self, deviations: Floats, away: Floats) -> float:
        most = float(_square_distances(deviations).sum(axis=1).max()) - float((deviations**2).sum())
        return float(np.sqrt(max(most, 0) / (len(deviations) * (away @ away))))


def _square_distances(vectors: Floats) -> Floats:
    """Of each to each, (n, n)."""
    return np.stack([((vectors - each) ** 2).sum(axis=1) for each in vectors])
