"""Clients with a majority of few classes and some of all others, or with a few classes only."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.types import Bools, Integers
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split, assign_classes, by_class, equal_sizes


@PARTITIONS("label_skew")
@dataclass(frozen=True)
class LabelSkew:
    """A client takes ``majority`` of its samples from a few classes of its own and the rest from all the others.

    Clients hold equally many samples and every sample is used once. The classes are dealt so that each is
    somebody's majority about equally often; where a class runs out, the others stand in for it. The setting
    of Mugunthan (MIT thesis, 2022), appendix B.2 (two classes, 90 %).
    """

    majority: Annotated[float, Field(ge=0, le=1, description="share of a client's samples from its own classes")] = 0.9
    classes: Annotated[int, Field(ge=1, le=10_000, description="classes of its own that each client has")] = 2

    leaves_nobody_out = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools, main_classes = _deal_classes(data, clients, self.classes, rng)
        sizes = equal_sizes(len(data.y_train), clients)
        left = np.array([len(pool) for pool in pools])
        counts = np.zeros((len(pools), clients), dtype=np.int64)
        # everybody's majority first, then the others' rest, then whatever is left over
        mine = np.zeros((clients, len(pools)), dtype=bool)
        mine[np.arange(clients)[:, None], main_classes] = True
        aim = np.round(sizes * self.majority).astype(np.int64)
        for allowed, upto in ((mine, aim), (~mine, sizes), (np.ones_like(mine), sizes)):
            for client in rng.permutation(clients):
                take = _take(left, allowed[client], int(upto[client] - counts[:, client].sum()), rng)
                counts[:, client] += take
                left -= take
        owners = np.concatenate([np.repeat(np.arange(clients), count) for count in counts])
        return Split.by_owner(np.concatenate(pools), owners, clients)


def _deal_classes(
    data: Dataset, clients: int, classes: int, rng: np.random.Generator
) -> tuple[list[Integers], Integers]:
    """The samples of each class, shuffled, and the classes of each client, (clients, classes)."""
    pools = by_class(data, rng)
    present = np.flatnonzero([len(pool) for pool in pools])
    if classes > len(present):
        raise ScenarioError("classes", f"is {classes}; the data have {len(present)} classes")
    return pools, assign_classes(present, clients, classes, rng)


def _take(left: Integers, allowed: Bools, wanted: int, rng: np.random.Generator) -> Integers:
    """Up to ``wanted`` random samples among those left of the allowed classes: how many of each, shape (classes,)."""
    pool = np.where(allowed, left, 0)
    return rng.multivariate_hypergeometric(pool, max(0, min(wanted, int(pool.sum()))), method="marginals")


@PARTITIONS("few_classes")
@dataclass(frozen=True)
class FewClasses:
    """A client holds ``samples`` training samples of each of ``classes`` classes; the rest of the data nobody holds.

    The classes are dealt so that each is somebody's about equally often; no sample is held twice. The setting of
    LotteryFL (Li et al. 2021) and of Mugunthan (MIT thesis, 2022), chapter 4.
    """

    classes: Annotated[int, Field(ge=1, le=10_000, description="classes of each client")] = 2
    samples: Annotated[int, Field(ge=1, le=10**9, description="samples of each of its classes")] = 50

    leaves_nobody_out = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools, rows = _deal_classes(data, clients, self.classes, rng)
        holders = np.bincount(rows.ravel(), minlength=len(pools))
        if short := [label for label in range(len(pools)) if holders[label] * self.samples > len(pools[label])]:
            most = min(len(pools[label]) // holders[label] for label in range(len(pools)) if holders[label])
            raise ScenarioError(
                "samples",
                f"is {self.samples} for each of {holders[short[0]]} clients that hold a class of "
                f"{len(pools[short[0]])} samples; the nearest valid value is {most}",
            )
        used = np.zeros(len(pools), dtype=np.int64)
        parts = []
        for row in rows:
            parts.append(np.concatenate([pools[label][used[label] : used[label] + self.samples] for label in row]))
            used[row] += self.samples
        return Split.of(parts)
