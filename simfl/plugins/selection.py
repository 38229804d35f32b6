"""Selection policies, and the families of rows that theory is computed from."""

from simfl.selection.base import POLICIES, Policy
from simfl.selection.random import RandomSelection
from simfl.selection.theory.families import AllAvailable, Coins, DisjointUnits, Family, NeighbourPairs

__all__ = [
    "POLICIES",
    "AllAvailable",
    "Coins",
    "DisjointUnits",
    "Family",
    "NeighbourPairs",
    "Policy",
    "RandomSelection",
]
