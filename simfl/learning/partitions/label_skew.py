"""Clients that differ in what they hold: a majority of few classes, few only, mixtures from a Dirichlet distribution,
shards, or what the data themselves name.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Bools, Integers
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split, apportion, assign_classes, by_class, equal_sizes


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


TRIES = 1000


@PARTITIONS("dirichlet")
@dataclass(frozen=True)
class DirichletPartition:
    """Every client's classes, or every class's clients, in proportions drawn from Dirichlet(beta).

    ``over: classes`` (Hsu, Qi and Brown 2019): clients hold equally many samples, and client i's classes follow
    q_i ~ Dirichlet(beta * classes * p) with p the share of each class in the data; where a class has run out,
    a mixture of the others, drawn likewise, takes its part. The last clients get what is left, so that the mixtures
    vary more than Dirichlet's own: by 4 % in variance at beta = 0.1, 13 % at 1, 31 % at 10 (100 clients with 600
    samples of 10 classes; as much where the mixture itself is kept without the classes that ran out).
    ``over: clients`` (Yurochkin et al. 2019): every class is divided in proportions ~ Dirichlet(beta, ..., beta), so
    that sizes differ and clients may go empty; ``min_samples`` draws again until none has fewer (Li et al. 2022).
    """

    beta: Annotated[float, Field(gt=0, le=1e9, description="concentration: large = IID, small = one class a client")]
    over: Annotated[
        Literal["classes", "clients"], Field(description="draw a client's class mixture, or a class's client mixture")
    ] = "classes"
    min_samples: Annotated[int, Field(ge=0, le=10**9, description="samples that every client holds at least")] = 0

    disjoint = True

    @property
    def always_possible(self) -> bool:
        return not self.min_samples

    @property
    def leaves_nobody_out(self) -> bool:
        return self.over == "classes" or self.min_samples > 0

    example = {"beta": 0.5}

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools = by_class(data, rng)
        sizes = np.array([len(pool) for pool in pools])
        if self.min_samples > (most := int(sizes.sum()) // clients):
            problem = f"{self.min_samples} for each of {clients} clients are more than the {sizes.sum()} samples"
            raise ScenarioError("min_samples", f"{problem}; the nearest valid value is {most}")
        counts = self._shares(sizes, clients, rng) if self.over == "clients" else self._mixtures(sizes, clients, rng)
        owners = np.concatenate([np.repeat(np.arange(clients), count) for count in counts])
        return Split.by_owner(np.concatenate(pools), owners, clients)

    def _shares(self, sizes: NDArray[np.int64], clients: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Samples of each class for each client, shape (classes, clients); drawn again while a client has too few."""
        fewest = -1
        for _ in range(TRIES):
            shares = rng.dirichlet(np.full(clients, self.beta), size=len(sizes))
            counts = np.array([apportion(size, share) for size, share in zip(sizes, shares, strict=True)])
            fewest = max(fewest, int(counts.sum(axis=0).min()))
            if fewest >= self.min_samples:
                return counts
        problem = f"in {TRIES:,} draws the poorest client never had more than {fewest} samples"
        raise ScenarioError("min_samples", f"{problem}; take at most {fewest}, a larger beta or fewer clients")

    def _mixtures(self, left: NDArray[np.int64], clients: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Samples of each class for each client, shape (classes, clients); clients choose in random order."""
        alpha = self.beta * np.count_nonzero(left) * left / left.sum()
        counts = np.zeros((len(left), clients), dtype=np.int64)
        sizes = equal_sizes(left.sum(), clients)
        for client in rng.permutation(clients):
            wanted = sizes[client]
            while wanted:  # again only where a class has run out
                open_ = np.flatnonzero(left)
                mixture = rng.dirichlet(np.maximum(alpha[open_], 1e-6))
                take = np.minimum(rng.multinomial(wanted, mixture), left[open_])
                counts[open_, client] += take
                left[open_] -= take
                wanted -= take.sum()
        return counts


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


@PARTITIONS("natural")
@dataclass(frozen=True)
class Natural:
    """The samples of one value of a column belong to one client, e.g. a writer, an occupation or a country.

    With fewer clients than values, whole values are dealt, the largest first, to the client with the fewest samples;
    with ``subset`` each client gets one value, drawn, and the samples of the others are unused. Client 0 holds the
    largest value, and of equally large ones the one that is sorted first.
    """

    column: Annotated[str, Field(min_length=1, description="column to split by; client = whom the data name")] = (
        "client"
    )
    subset: Annotated[bool, Field(description="fewer clients than values: one value each, the others unused")] = False

    example = {"column": "place"}
    leaves_nobody_out = True
    disjoint = True

    @property
    def by_seed(self) -> bool:
        """Values are drawn."""
        return self.subset

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        if self.column not in data.columns:
            known = ", ".join(data.columns) or "none"
            hint = "" if data.columns else "; in csv and parquet learning.data.client names the column of the clients"
            raise ScenarioError("column", f"no column '{self.column}' to split by; there are: {known}{hint}")
        values, code = np.unique(data.columns[self.column], return_inverse=True)
        if clients > len(values):
            raise ScenarioError(
                "column",
                f"'{self.column}' has {len(values)} values for {clients} clients; the nearest valid value of clients "
                f"is {len(values)}",
            )
        used = np.sort(rng.permutation(len(values))[:clients]) if self.subset else np.arange(len(values))
        sizes = np.bincount(code)
        client_of = np.full(len(values), -1)
        load = np.zeros(clients, dtype=np.int64)
        for value in used[np.argsort(-sizes[used], kind="stable")]:
            client_of[value] = load.argmin()
            load[client_of[value]] += sizes[value]
        positions = np.flatnonzero(client_of[code] >= 0)
        return Split.by_owner(positions, client_of[code[positions]], clients)
