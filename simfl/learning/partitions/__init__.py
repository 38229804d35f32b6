"""Partitions of the training samples over the clients: one file a way."""

from simfl.learning.partitions import (
    bootstrap,
    dirichlet,
    few_classes,
    growing,
    iid,
    label_skew,
    natural,
    quantity,
    resampled,
    shards,
)  # fmt: skip
from simfl.learning.partitions.base import PARTITIONS, Partition, Split

__all__ = [
    "PARTITIONS",
    "Partition",
    "Split",
    "bootstrap",
    "dirichlet",
    "few_classes",
    "growing",
    "iid",
    "label_skew",
    "natural",
    "quantity",
    "resampled",
    "shards",
]
