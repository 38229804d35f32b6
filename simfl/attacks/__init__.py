"""Observers of what an aggregator sees."""

from simfl.attacks import least_squares
from simfl.attacks.base import OBSERVERS, Observer, Seen, Truth

__all__ = ["OBSERVERS", "Observer", "Seen", "Truth", "least_squares"]
