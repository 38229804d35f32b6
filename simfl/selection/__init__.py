"""Who takes part: one file per policy."""

from simfl.selection import batch_partition, bernoulli, everyone, half_partition, partition, random, weighted
from simfl.selection.base import POLICIES, Policy

__all__ = [
    "POLICIES",
    "Policy",
    "batch_partition",
    "bernoulli",
    "everyone",
    "half_partition",
    "partition",
    "random",
    "weighted",
]
