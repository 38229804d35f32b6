"""What a partition is: which client holds which training samples; and what several of them need."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import Dataset
from simfl.learning.objects.shorthand import shorthand


@dataclass(frozen=True)
class Split:
    """Every client's training samples, one behind the other.

    Attributes:
        offsets: int64, shape (clients + 1,): client i holds ``indices[offsets[i]:offsets[i + 1]]``.
        indices: int64: positions in the training part.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]

    @classmethod
    def of(cls, parts: Iterable[NDArray[np.integer]]) -> "Split":
        """From one array of positions a client."""
        parts = list(parts)
        offsets = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return cls(offsets, np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64))

    @classmethod
    def cut(cls, order: NDArray[np.integer], sizes: NDArray[np.integer]) -> "Split":
        """The positions ``order``, cut into consecutive parts of the given sizes, shape (clients,)."""
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), order.astype(np.int64))

    @classmethod
    def by_owner(cls, order: NDArray[np.integer], owners: NDArray[np.integer], clients: int) -> "Split":
        """The positions ``order``, each given to the client named beside it in ``owners``; both of shape (n,)."""
        sizes = np.bincount(owners, minlength=clients)
        return cls.cut(order[np.argsort(owners, kind="stable")], sizes)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> NDArray[np.int64]:
        """The positions that one client holds."""
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def samples_at(self, client: int, version: int) -> NDArray[np.int64]:
        """The positions that one client holds when it trains on this version of the model: all of them, as a rule."""
        return self[client]

    def counts(self, clients: NDArray[np.integer], versions: NDArray[np.integer]) -> NDArray[np.int64]:
        """How many that are for each of the clients, int64 (n,), when they train on these versions, (n,)."""
        return self.offsets[np.asarray(clients) + 1] - self.offsets[clients]

    def label_counts(self, labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
        """Samples of each class that each client holds, int64 (clients, classes), given the class of each, (n,)."""
        cells = np.repeat(np.arange(len(self)), self.sizes) * classes + labels[self.indices]
        return np.bincount(cells, minlength=len(self) * classes).reshape(len(self), classes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Samples of each client, int64, shape (clients,)."""
        return np.diff(self.offsets)


class SplittingPartition(Protocol):
    """What a partition choice is for training: see :class:`Partition`, whose method this is."""

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split: ...


class Partition(Plugin, Protocol):
    """A partition's YAML choice.

    Six samples of two classes, dealt to three clients in shards of one class each:

    >>> from simfl.learning.partitions.label_skew import Shards
    >>> x, y = np.zeros((6, 1), dtype=np.float32), np.array([0, 1, 0, 1, 0, 0])
    >>> split = Shards(labels_per_client=1).split(Dataset(x, y, x, y, ("a", "b")), 3, np.random.default_rng(0))
    >>> split.sizes.tolist(), [sorted(split[client].tolist()) for client in range(3)]
    ([2, 2, 2], [[2, 5], [0, 4], [1, 3]])
    >>> split.counts([0, 2], [7, 7]).tolist()  # what these clients train on with version 7 of the model
    [2, 2]

    Attributes:
        always_possible: any data can be split so.
        leaves_nobody_out: every client certainly gets samples of data that have as many as there are clients.
        accumulates: what a client has held it holds as long as it holds as many samples.
        disjoint: no sample is with two clients, or twice with one.
        by_seed: the seed may decide whose data a client holds.
        changes: what a client holds depends on the version of the model that it trains on.
    """

    always_possible: bool = False
    leaves_nobody_out: bool = False
    changes: bool = False
    by_seed: bool = True
    accumulates: bool = False
    disjoint: bool = False

    @property
    def counts_change(self) -> bool:
        """Whether how many samples a client holds may depend on that version, too."""
        return self.changes

    def prepare(self, setting: ScenarioView) -> SplittingPartition:
        """The partition that can split, where that takes something from the scenario around it; itself as a rule.

        Raises:
            ScenarioError: what it needs is not there.
        """
        return self

    @abstractmethod
    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        """Gives every training sample to a client; a client may go empty where the choice allows it.

        Raises:
            ScenarioError: the data cannot be split so.
        """


PARTITIONS = Registry[Partition](
    "partition",
    shorthand=shorthand,
    promises=("always_possible", "leaves_nobody_out", "counts_change", "by_seed", "accumulates", "disjoint"),
    protocol=Partition,
    modules=modules_of(
        "simfl.learning.partitions",
        "python",
        amounts="growing quantity",
        bootstrap="bootstrap resampled",
        label_skew="data_sharing dirichlet few_classes label_skew natural shards",
    ),
)


def equal_sizes(samples: int, clients: int) -> NDArray[np.int64]:
    """Sizes that differ by at most one and add up to ``samples``, shape (clients,)."""
    sizes = np.full(clients, samples // clients)
    sizes[: samples % clients] += 1
    return sizes


def apportion(samples: int, shares: NDArray[np.floating] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Whole numbers that add up to ``samples``, in proportion to ``shares`` (largest remainder), same shape."""
    exact = samples * (shares / shares.sum())
    parts = np.floor(exact).astype(np.int64)
    rest = samples - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:rest]] += 1
    return parts


def by_class(data: Dataset, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The training samples of each class, each in random order.

    Raises:
        ScenarioError: there are no classes.
    """
    data.require_classes("", "it splits by class; iid, quantity, natural and your own do not")
    order = rng.permutation(len(data.y_train))
    order = order[np.argsort(data.y_train[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(data.y_train, minlength=data.classes))[:-1])


def assign_classes(classes: NDArray[np.int64], clients: int, each: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``each`` different classes for every client, shape (clients, each), all classes about equally often."""
    rows = np.empty((clients, each), dtype=np.int64)
    used = np.zeros(len(classes), dtype=np.int64)
    for client in range(clients):
        chosen = np.lexsort((rng.random(len(classes)), used))[:each]
        used[chosen] += 1
        rows[client] = classes[chosen]
    return rows


@PARTITIONS("iid")
@dataclass(frozen=True)
class Iid:
    """The samples are shuffled and dealt out in parts whose sizes differ by at most one."""

    always_possible = True
    leaves_nobody_out = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        samples = len(data.y_train)
        return Split.cut(rng.permutation(samples), equal_sizes(samples, clients))
