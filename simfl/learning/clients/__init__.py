"""Variants of local training: one file each."""

from simfl.learning.clients import fedprox, privacyfl, scaffold

__all__ = ["fedprox", "privacyfl", "scaffold"]
