"""Observers of what an aggregator sees."""

from simfl.attacks.base import OBSERVERS, Observer, Seen, Truth

__all__ = ["OBSERVERS", "Observer", "Seen", "Truth"]
