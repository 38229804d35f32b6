"""How several updates become one: the mean, or something in its place."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Bools, Floats, Integers, Vectors


class Factor(NamedTuple):
    """What single updates make of their aggregate.

    Attributes:
        values: float32, (d,) or one number: what is multiplied.
        on_step: the server's step is multiplied, after its optimiser; else the aggregate, before it.
        row: values of the aggregate's columns.
    """

    values: Any
    on_step: bool
    row: Mapping[str, float]


class BesideUpdates(NamedTuple):
    """What a server has besides the updates, in the coordinates that are summed.

    Attributes:
        previous: float32 (d,): what it made of the sum before; 0 before the first, empty unless the aggregate says
            ``reads_previous``.
        root: gives what the server would send as a client, (d,), that holds so many samples of the training part, the
            same ones in every round, whoever else holds them, and trains the current model on them.
        clients: int64 (n,): whose updates they are; of sums of units their places in the selection.
        rng: gives a generator at the beginning of the draws for this aggregate.
    """

    previous: Vectors
    root: Callable[[int], Vectors]
    clients: Integers
    rng: Callable[[], np.random.Generator]


class AggregationRule(Plugin, Protocol):
    """A frozen dataclass whose methods are pure.

    Attributes:
        weighted: it follows the weights; else every update with a positive weight counts once.
        sum_only: the sum of the updates is all it needs, which is all that secure aggregation shows; an aggregate
            has to say so.
        reads_previous: it goes on from what the server made of the sum before.
        reads_server: :meth:`combine` takes what the server has besides, as keyword ``beside``.
        least: updates that a sum must have for what is proven of it.
        columns: what its factor adds to rounds.csv.
    """

    weighted: bool
    sum_only: bool = False
    reads_previous: bool = False
    reads_server: bool = False
    least: int = 1
    columns: tuple[Column, ...] = ()

    def shares(self, deltas: Vectors, weights: Floats, beside: BesideUpdates | None = None) -> Floats | None:
        """What each update counts in what :meth:`combine` gives, (n,), for metrics; where coordinates differ, the mean
        over them. None = not known.
        """
        return weights / weights.sum() if self.sum_only else None

    @abstractmethod
    def combine(self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
        """One update, float32 (d,), of n >= 1 updates (n, d) and their weights (n,), some of them positive.

        Args:
            deltas: the updates.
            weights: of each update.
            normaliser: what a weighted sum is divided by, above 0; the sum of the weights unless a rule says otherwise.
            mask: the coordinates that each update speaks about, (n, d); None = all. A coordinate is averaged over
                those who hold it, and is 0 where nobody does.
        """

    def factor(self, deltas: Vectors, weights: Floats, mask: Bools | None, tensors: Sequence[slice]) -> Factor | None:
        """What the combined update, or the step made of it, is multiplied with; None = nothing.

        Args:
            deltas, weights, mask: as for :meth:`combine`.
            tensors: where each of the model's parameters lies in the vectors.
        """
        return None


AGGREGATES = Registry[AggregationRule](
    "aggregate",
    promises=("sum_only",),
    protocol=AggregationRule,
    modules=modules_of(
        "simfl.training", robust="bucketed bulyan centred_clipping fltrust geometric_median krum multi_krum norm_bound"
    ),
)


@AGGREGATES("mean")
@dataclass(frozen=True)
class Mean:
    """The weighted mean."""

    weighted = True
    sum_only = True

    def combine(self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
        # not a matrix product: the bits of BLAS depend on its number of threads
        share = (weights / normaliser).astype(np.float32)
        if mask is None:
            return np.einsum("n,nd->d", share, deltas)
        coverage = np.einsum("n,nd->d", share, mask)
        total = np.einsum("n,nd->d", share, np.where(mask, deltas, 0))
        return np.divide(total * share.sum(), coverage, out=np.zeros_like(total), where=coverage > 0)


class _Trimmed:
    """What rules share that leave out extreme values of each coordinate; subclasses say how many of n at each end."""

    weighted = False
    sum_only = False

    @abstractmethod
    def _left_out(self, n: int) -> int:
        """Of n updates, at each end."""

    def combine(self, deltas: Vectors, weights: Floats, normaliser: float, mask: Bools | None = None) -> Vectors:
        deltas = deltas[weights > 0]
        n = len(deltas)
        if drop := self._left_out(n):
            deltas = np.partition(deltas, (drop, n - drop - 1), axis=0)[drop : n - drop]
        return deltas.mean(axis=0, dtype=np.float32)


@AGGREGATES("median")
@dataclass(frozen=True)
class Median(_Trimmed):
    """The median of every coordinate. Reference: Yin et al. 2018, definition 1."""

    def _left_out(self, n: int) -> int:
        return (n - 1) // 2


@AGGREGATES("trimmed_mean")
@dataclass(frozen=True)
class TrimmedMean(_Trimmed):
    """The mean of every coordinate without its extreme values. Reference: Yin et al. 2018, definition 2."""

    trim: Annotated[float, Field(ge=0, lt=0.5, description="share of the updates left out at each end")] = 0.1

    def _left_out(self, n: int) -> int:
        return int(self.trim * n + 1e-9)


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
        return [("", f"{why}; use training.aggregate: mean, or compression: quantise")]


@AGGREGATES("masked")
@dataclass(frozen=True)
class MaskedMean(_BySigns):
    """Gradient-masked averaging: the mean, scaled down in coordinates whose updates disagree in sign.

    Agreement is A = |mean of sign(update)| in a coordinate, every update counting once; the mean is multiplied by 1
    where A >= tau, else by A. References: Tenison et al. 2021 (arXiv 2201.11986); Mugunthan (MIT thesis, 2022),
    chapter 3. The division by the mask's mean is that of the AND-mask (Parascandolo et al. 2021), the rule's ancestor.
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
