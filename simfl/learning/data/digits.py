"""scikit-learn's copy of the UCI handwritten digits: 1,797 images of 8 x 8 pixels."""

import gzip
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import DATA, Dataset, Outline, SubsetField, subset

SAMPLES = 1797


def read_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pixels (1797, 64) and labels of scikit-learn's copy."""
    pixels, labels = _digits_file()
    return pixels.copy(), labels.copy()


@cache
def _digits_file() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The file's numbers, which are read from text once in a process.

    Without importing scikit-learn, which takes as long as a short run.
    """
    package = find_spec("sklearn")
    folder = Path(package.origin).parent if package and package.origin else None
    file = folder and folder / "datasets" / "data" / "digits.csv.gz"
    if not file or not file.is_file():
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        return pixels, labels.astype(np.int64)
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


@DATA("digits")
@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8 x 8 pixels, built in; mean 0, variance 1. Reference: Alpaydin & Kaynak 1998."""

    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the samples kept for the test")] = 0.2
    samples: SubsetField = field(default=None, metadata=SINCE_LATER)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if 0 < round(SAMPLES * self.test_fraction) < SAMPLES:
            return []
        nearest = 1 if self.test_fraction < 0.5 else SAMPLES - 1
        short = "test" if nearest == 1 else "training"
        problem = f"of {SAMPLES:,} samples {self.test_fraction:g} leaves none for {short}"
        return [("test_fraction", f"{problem}; the nearest valid value is {nearest / SAMPLES:.6f}")]

    def outline(self, setting: ScenarioView) -> Outline:
        return Outline((1, 8, 8), 10)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        pixels, labels = read_digits()
        images = pixels.reshape(-1, 1, 8, 8)
        order = streams("split").permutation(len(labels))
        cut = round(len(labels) * self.test_fraction)
        test, train = order[:cut], order[cut:]
        images = ((images - images[train].mean()) / images[train].std()).astype(np.float32)
        data = Dataset(images[train], labels[train], images[test], labels[test], tuple("0123456789"))
        return subset(data, self.samples, streams)
