"""Selection policies, and the families of rows that theory is computed from."""

from simfl.selection.asking import Around, ask, observe, order_of_clients, shuffle_clients
from simfl.selection.base import POLICIES, Policy, nobody
from simfl.selection.random import RandomSelection
from simfl.selection.theory.families import AllAvailable, Coins, DisjointUnits, Family, NeighbourPairs
from simfl.selection.verifiable import CHECKS, Claim, Receipt, Verifier

__all__ = [
    "AllAvailable", "Around", "CHECKS", "Claim", "Coins", "DisjointUnits", "Family", "NeighbourPairs", "POLICIES",
    "Policy", "RandomSelection", "Receipt", "Verifier", "ask", "nobody", "observe", "order_of_clients",
    "shuffle_clients",
]  # fmt: skip
