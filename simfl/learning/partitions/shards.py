"""Clients that know a few labels only."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split, apportion, by_class, equal_sizes


@PARTITIONS("shards")
@dataclass(frozen=True)
class Shards:
    """Samples sorted by label, cut into shards of one label each, and a few shards dealt to every client.

    As McMahan et al. 2017 (section 3), but no shard crosses from one label to the next: every class gets shards in
    proportion to its size, so that shards are equally large up to rounding, and a client holds at most
    ``labels_per_client`` labels.
    """

    labels_per_client: Annotated[int, Field(ge=1, le=10_000, description="shards of each client")] = 2

    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools = [pool for pool in by_class(data, rng) if len(pool)]
        count = clients * self.labels_per_client
        if not len(pools) <= count <= len(data.y_train):
            raise ScenarioError(
                "labels_per_client",
                f"makes {count} shards for {clients} clients; at least one for each of the {len(pools)} classes and at "
                f"most one for each of the {len(data.y_train)} samples is needed",
            )
        sizes = np.array([len(pool) for pool in pools])
        shards_of = 1 + apportion(count - len(pools), np.maximum(sizes * count / sizes.sum() - 1, 1e-9))
        shards = [part for pool, n in zip(pools, shards_of, strict=True) for part in np.array_split(pool, n)]
        assigned = rng.permutation(count).reshape(clients, self.labels_per_client)
        return Split.of(np.concatenate([shards[i] for i in row]) for row in assigned)


@PARTITIONS("data_sharing")
@dataclass(frozen=True)
class DataSharing:
    """One sorted shard a client, and a small random share of the data that everybody holds (Zhao et al. 2018).

    The setting of arXiv 2106.03328, appendix E: 200 shared samples; the others sorted by label and cut into one
    shard a client. Where they are 20 of each of the ten classes (``balanced``), the shards of CIFAR-10 have one label
    each.
    """

    shared: Annotated[int, Field(ge=0, le=10**9, description="samples that every client holds")] = 200
    balanced: Annotated[bool, Field(description="as many shared samples of each class")] = False
    order: Annotated[
        tuple[int, ...],
        Field(description="the shard of each client, the first is 0; otherwise they are dealt at random"),
    ] = ()

    leaves_nobody_out = True

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if not self.order or sorted(self.order) == list(range(setting.clients)):
            return []
        return [("order", f"must hold each number from 0 to {setting.clients - 1} once, a shard for each client")]

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        common, private = self._split_balanced(data, rng) if self.balanced else self._split_random(data, rng)
        shards = np.split(private, np.cumsum(equal_sizes(len(private), clients))[:-1])
        assigned = self.order or rng.permutation(clients)
        if self.balanced:  # shared samples come last, which counts where they are not shuffled
            return Split.of(np.concatenate([shards[i], common]) for i in assigned)
        return Split.of(np.concatenate([common, shards[i]]) for i in assigned)

    def _split_random(self, data: Dataset, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shared samples, and the others sorted by label."""
        data.require_classes("", "it sorts by class")
        order = rng.permutation(len(data.y_train))
        if self.shared > len(order):
            raise ScenarioError("shared", f"is {self.shared} of {len(order)} training samples")
        common, private = order[: self.shared], order[self.shared :]
        return common, private[np.argsort(data.y_train[private], kind="stable")]

    def _split_balanced(self, data: Dataset, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same with as many shared samples of each class that there is."""
        pools = [pool for pool in by_class(data, rng) if len(pool)]
        each, rest = divmod(self.shared, len(pools))
        if rest:
            near = round(self.shared / len(pools)) * len(pools)
            why = f"is {self.shared}, not as many of each of {len(pools)} classes; the nearest valid value is {near}"
            raise ScenarioError("shared", why)
        if each > (least := min(len(pool) for pool in pools)):
            raise ScenarioError("shared", f"takes {each} samples of each class, and there are {least} of one")
        return np.concatenate([pool[:each] for pool in pools]), np.concatenate([pool[each:] for pool in pools])
