"""Data sets: one file a source."""

from simfl.learning.data import digits
from simfl.learning.data.base import DATA, Data, Dataset

__all__ = ["DATA", "Data", "Dataset", "digits"]
