"""Metrics of users' own: what they look at after every round and at the end, and the columns they fill."""

from simfl.metrics.base import METRICS, Metric, Predictions, RoundSnapshot

__all__ = ["METRICS", "Metric", "Predictions", "RoundSnapshot"]
