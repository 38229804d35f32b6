"""Gradient-masked averaging: coordinates whose updates disagree in sign move less.

References: Tenison et al. 2021 (arXiv 2201.11986); Mugunthan (MIT thesis, 2022), chapter 3. The division by the mask's
mean is that of the AND-mask (Parascandolo et al. 2021), the rule's ancestor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Bools, Floats, Vectors
from simfl.training.aggregates import AGGREGATES, AggregationRule, Factor, Mean

BLOCK = 1 << 13
"""Coordinates that are voted on at once: a block of a dozen updates stays in the processor's cache."""

Tau = Annotated[float, Field(ge=0, le=1, description="agreement above which a coordinate keeps its mean")]
Masks = Annotated[
    Literal["update", "step"],
    Field(description="what is masked: the mean before the server's optimiser, or its step (the thesis' Adam, Yogi)"),
]
COLUMNS = (Column("mask_mean", "Mask", "share", "Mean of the sign mask over the model's coordinates.", 0),)


@dataclass(frozen=True)
class _BySigns(AggregationRule):
    """What rules that look at the updates' signs share."""

    tau: Tau = 0.4
    masks: Masks = "update"

    weighted = True
    sum_only = False
    columns = COLUMNS

    combine = Mean.combine

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        code = setting.compression
        if not code.subsamples and all(part.kind != "mask" for part in code.exposes(setting)):
            return []
        why = f"takes a coordinate that is not sent for disagreement, and compression: {code.name} leaves some out"
        return [("", f"{why}; use aggregate: mean, or compression: quantise")]


@AGGREGATES("masked")
@dataclass(frozen=True)
class MaskedMean(_BySigns):
    """Gradient-masked averaging: the mean, scaled down in coordinates whose updates disagree in sign.

    Agreement is A = |mean of sign(update)| in a coordinate, every update counting once; the mean is multiplied by 1
    where A >= tau, else by A.
    """

    rescale: Annotated[
        Literal["none", "all", "layer"],
        Field(description="divide the mask by its mean over all coordinates, or over each parameter's own"),
    ] = "none"

    def factor(self, deltas: Vectors, weights: Floats, mask: Bools | None, tensors: Sequence[slice]) -> Factor:
        agreement = sign_mask(deltas, weights, mask, self.tau)
        row = {"mask_mean": _mean(agreement)}
        for part in {"none": (), "all": (slice(None),), "layer": tensors}[self.rescale]:
            if mean := _mean(agreement[part]):
                agreement[part] /= np.float32(mean)
        return Factor(agreement, self.masks == "step", row)


@AGGREGATES("shrunk")
@dataclass(frozen=True)
class Shrunk(_BySigns):
    """The mean times the mean of the sign mask: as much shorter as ``masked`` makes it, but in every direction alike.

    The control that tells what a mask selects from what it shortens.
    """

    def factor(self, deltas: Vectors, weights: Floats, mask: Bools | None, tensors: Sequence[slice]) -> Factor:
        mean = _mean(sign_mask(deltas, weights, mask, self.tau))
        return Factor(np.float32(mean), self.masks == "step", {"mask_mean": mean})


def sign_mask(deltas: Vectors, weights: Floats, mask: Bools | None, tau: float) -> Vectors:
    """1 where at least ``tau`` of the votes remain after opposite signs cancel, else the share that remains; (d,).

    Updates of weight 0 do not vote. A coordinate's voters are those who hold it; who votes 0 counts as a voter.
    """
    chosen = weights > 0
    if not chosen.all():
        deltas, mask = deltas[chosen], None if mask is None else mask[chosen]
    n, d = deltas.shape
    few = np.int8 if n < 128 else np.int32
    shares = np.arange(n + 1) / n
    levels = np.where(shares >= tau, 1, shares).astype(np.float32)  # there are n + 1 different votes only
    agreement = np.empty(d, dtype=np.float32)
    for first in range(0, d, BLOCK):
        now = slice(first, first + BLOCK)
        part = deltas[:, now]
        signs = (part > 0).view(np.int8) - (part < 0).view(np.int8)
        votes = np.abs(np.add.reduce(signs, axis=0, dtype=few))
        if mask is None:
            np.take(levels, votes, out=agreement[now], mode="clip")
        else:
            share = votes / np.maximum(mask[:, now].sum(axis=0), 1)
            agreement[now] = np.where(share >= tau, 1, share)
    return agreement


def _mean(mask: Vectors) -> float:
    return float(mask.mean(dtype=np.float64)) if mask.size else 0.0
