"""Data sets: one file a source."""

from simfl.learning.data.base import DATA, Data, Dataset, Outline

__all__ = ["DATA", "Data", "Dataset", "Outline"]
