"""Partitions of the training samples over the clients: one file a way."""

from simfl.learning.partitions.base import PARTITIONS, Partition, Split

__all__ = ["PARTITIONS", "Partition", "Split"]
