"""Metrics of users' own: what they look at after every round and at the end, and the columns they fill."""

from simfl.measurement import change, fairness
from simfl.measurement.base import METRICS, Metric, Moment, Predictions

__all__ = ["METRICS", "Metric", "Moment", "Predictions", "change", "fairness"]
