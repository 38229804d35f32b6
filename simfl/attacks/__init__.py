"""Observers of what an aggregator sees."""

from simfl.attacks import collusion, inversion, least_squares, membership
from simfl.attacks.base import OBSERVERS, Curve, Finding, Inside, Observer, Picture, Seen, Truth

__all__ = [
    "OBSERVERS", "Curve", "Finding", "Inside", "Observer", "Picture", "Seen", "Truth", "collusion", "inversion",
    "least_squares", "membership",
]  # fmt: skip
