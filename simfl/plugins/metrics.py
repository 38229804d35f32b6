"""Metrics of every round, or of the finished run."""

from simfl.metrics.base import METRICS, Metric, RoundSnapshot

__all__ = ["METRICS", "Metric", "RoundSnapshot"]
