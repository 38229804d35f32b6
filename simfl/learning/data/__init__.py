"""Data sets: one file a source."""

from simfl.learning.data import adult, cifar, csv, digits, mnist, npz, synthetic
from simfl.learning.data.base import DATA, Data, Dataset

__all__ = ["DATA", "Data", "Dataset", "adult", "cifar", "csv", "digits", "mnist", "npz", "synthetic"]
