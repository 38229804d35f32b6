"""Data sets, partitions, models and local training. torch is imported only when a learner is built."""

from simfl.learning.base import LEARNING, Learner, Learning

__all__ = ["LEARNING", "Learner", "Learning"]
