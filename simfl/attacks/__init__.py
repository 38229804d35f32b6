"""Observers of what an aggregator sees."""

from simfl.attacks import inversion, least_squares, membership
from simfl.attacks.base import OBSERVERS, Curve, Finding, Observer, Picture, Seen, Truth

__all__ = [
    "OBSERVERS", "Curve", "Finding", "Observer", "Picture", "Seen", "Truth", "inversion", "least_squares", "membership",
]  # fmt: skip
