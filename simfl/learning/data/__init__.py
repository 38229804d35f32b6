"""Data sets: one file a source."""

from simfl.learning.data import adult, adult_complete, cifar, csv, digits, kddcup, mnist, npz, privacyfl, synthetic
from simfl.learning.data.base import DATA, Data, Dataset, Outline

__all__ = [
    "DATA",
    "Data",
    "Dataset",
    "Outline",
    "adult",
    "adult_complete",
    "cifar",
    "csv",
    "digits",
    "kddcup",
    "mnist",
    "npz",
    "privacyfl",
    "synthetic",
]
