"""Observers of what an aggregator sees."""

from simfl.attacks import collusion  # noqa: F401  (registers the plugin)
from simfl.attacks.base import OBSERVERS, Inside, Observer, Seen, Truth

__all__ = ["OBSERVERS", "Inside", "Observer", "Seen", "Truth"]
