"""Distributions of durations, latencies and speeds."""

from simfl.core.distributions import DISTRIBUTIONS, Distribution

__all__ = ["DISTRIBUTIONS", "Distribution"]
