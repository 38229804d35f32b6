"""The settings of Tables 2, 3 and 4 of arXiv 2106.03328.

As its authors' public code has them, with its ablation of N, K and T; tuned by ourselves; and Table 2 reduced to what
a processor can train.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from labels import GROUPED, SHARDS, SORTED, by_label, dropout_by_label
from schemes import AUTHORS, PAPER

__all__ = ["CELLS", "CONTROLS", "Cell", "dropout_by_label", "fitting", "marks", "published", "unit"]


MARKS = {2: (100, 200), 3: (100, 200, 500, 1000), 4: (50, 100, 200)}
"""Rounds after which a table tells accuracy; the last of them is its end."""


def marks(table: int, rounds: int) -> list[int]:
    """After which of so many rounds a table tells accuracy."""
    return [mark for mark in MARKS[table] if mark <= rounds]


class Cell(NamedTuple):
    """One half of a table.

    Attributes:
        table, setting: where it stands in the paper.
        file: the scenario.
        fixed: its overrides.
        schemes: name -> selection.
        minutes: of one core (AMD EPYC, otherwise idle) for one seed of all schemes, about.
    """

    table: int
    setting: str
    file: str
    fixed: Mapping[str, Any]
    schemes: Mapping[str, str]
    minutes: int

    def cost(self, rounds: int | None) -> float:
        """Minutes of one seed of so many rounds, or of all."""
        return self.minutes * (rounds or MARKS[self.table][-1]) / MARKS[self.table][-1]


BF16 = {"learning.bf16": True}


REDUCED = {
    "learning.model": "{name: vgg11, width: 0.25}", "learning.backend": "sequential", "learning.bf16": True,
    "training.rounds": 200,
}  # fmt: skip
"""A quarter of VGG-11's channels, on CIFAR-10 instead of CIFAR-100.

The rate is told neither by the paper nor by the public code: it is tuned. What is not IID is dealt as section 5 has
it, each class in proportions ~ Dirichlet(0.5) over the clients, and shuffled, with momentum 0.9, as in Table 3.
"""


def unit(scheme: str, k: int) -> int:
    """T, clients in a batch of a scheme that aggregates K."""
    return k if scheme == "partition" else int(scheme.partition("T=")[2] or 1)


def fitting(clients: int, k: int) -> dict[str, str]:
    """The schemes whose batches divide the clients and an aggregation; with T = K a batch is a group of partition."""

    units = {name: unit(name, k) for name in AUTHORS}
    fits = {
        name: k % size == clients % size == 0 and (size != k or name == "partition") for name, size in units.items()
    }
    return {name: choice for name, choice in AUTHORS.items() if fits[name]}


def sized(clients: int, k: int, minutes: int) -> Cell:
    """Table 3, IID, with another number of clients, altogether and in an aggregation; by the curves, no momentum."""
    fixed = BF16 | GROUPED | {"clients": clients, "selection.k": k, "training.momentum": 0}
    return Cell(3, f"N={clients},K={k}", "paper001_cifar10_authors.yaml", fixed, fitting(clients, k), minutes)


CELLS: dict[str, tuple[Cell, ...]] = {
    "authors": (
        Cell(3, "IID", "paper001_cifar10_authors.yaml", GROUPED, AUTHORS, 53),
        Cell(
            3, "non-IID, shared", "paper001_cifar10_authors.yaml",
            BF16 | GROUPED | {"learning.partition": "{name: data_sharing, shared: 200, balanced: true}",
                    "training.learning_rate": 0.01, "training.momentum": 0.9, "training.shuffle": True},
            AUTHORS, 64,
        ),
        Cell(4, "IID", "paper001_mnist_authors.yaml", BF16, AUTHORS, 14),
        Cell(4, "non-IID, dropout by label", "paper001_mnist_authors.yaml", BF16 | by_label(SHARDS), AUTHORS, 14),
        Cell(4, "non-IID, dropout at random", "paper001_mnist_authors.yaml", BF16 | SORTED, AUTHORS, 14),
        Cell(
            4, "non-IID, shards in order", "paper001_mnist_authors.yaml", BF16 | by_label(range(120)),
            {scheme: AUTHORS[scheme] for scheme in ("random", "batch T=3")}, 5,
        ),
        Cell(
            4, "non-IID, shards in order, no dropout layers", "paper001_mnist_authors.yaml",
            BF16 | by_label(range(120)) | {"learning.model": "{name: multiround_mnist, dropout: false}"},
            {scheme: AUTHORS[scheme] for scheme in ("random", "batch T=3")}, 5,
        ),
    ),
    "more_seeds": (
        Cell(
            3, "IID", "paper001_cifar10_authors.yaml", {},
            {scheme: AUTHORS[scheme] for scheme in ("random", "batch T=4")}, 38,
        ),
    ),
    "ablation": (sized(60, 12, 75), sized(240, 12, 25), sized(120, 6, 25), sized(120, 24, 75)),
    "tuned": (
        Cell(3, "IID", "paper001_cifar10.yaml", GROUPED, PAPER, 75),
        Cell(3, "non-IID", "paper001_cifar10.yaml",
             GROUPED | {"learning.partition": "data_sharing", "training.learning_rate": 0.1}, PAPER, 110),
        Cell(4, "IID", "paper001_mnist.yaml", BF16, PAPER, 50),
        Cell(
            4, "non-IID", "paper001_mnist.yaml", BF16 | {"learning.partition": "shards:labels_per_client=1"}, PAPER, 50
        ),
    ),
    "reduced": (
        Cell(2, "IID", "paper001_cifar10_authors.yaml", REDUCED | {"training.learning_rate": 0.1}, AUTHORS, 35),
        Cell(
            2, "non-IID", "paper001_cifar10_authors.yaml",
            REDUCED | {"learning.partition": "dirichlet:beta=0.5,over=clients",
                       "training.shuffle": True, "training.momentum": 0.9, "training.learning_rate": 0.03},
            AUTHORS, 35,
        ),
    ),
}  # fmt: skip
"""What ``tables.py --settings`` runs; ``more_seeds`` with the backend ``auto``, which changes last digits."""

CONTROLS = (
    "non-IID, dropout at random", "non-IID, shards in order", "non-IID, shards in order, no dropout layers",
)  # fmt: skip
"""Settings that no published run has."""


def published(table: int, setting: str) -> tuple[str, str, int, int] | None:
    """Data, split, N and K of the published runs that a setting stands beside; None where there are none."""
    if table == 2 or setting in CONTROLS:
        return None
    clients, k = 120, 12
    if setting.startswith("N="):
        clients, k = (int(part.partition("=")[2]) for part in setting.split(","))
    split = "non-IID" if setting.startswith("non-IID") else "IID"
    return {3: "CIFAR-10", 4: "MNIST"}[table], split, clients, k
