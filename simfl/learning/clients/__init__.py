"""Variants of local training: one file each."""

from simfl.learning.clients import fedprox, scaffold

__all__ = ["fedprox", "scaffold"]
