"""scikit-learn's copy of the UCI handwritten digits: 1,797 images of 8 x 8 pixels."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.learning.data.base import DATA, Dataset, Outline
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["Digits"]

SAMPLES = 1797


@DATA("digits")
@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8 x 8 pixels, built in; mean 0, variance 1. Reference: Alpaydin & Kaynak 1998."""

    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the samples kept for the test")] = 0.2

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        if 0 < round(SAMPLES * self.test_fraction) < SAMPLES:
            return []
        nearest = 1 if self.test_fraction < 0.5 else SAMPLES - 1
        short = "test" if nearest == 1 else "training"
        problem = f"of {SAMPLES:,} samples {self.test_fraction:g} leaves none for {short}"
        return [("test_fraction", f"{problem}; the nearest valid value is {nearest / SAMPLES:.6f}")]

    def outline(self, setting: Setting) -> Outline:
        return Outline((1, 8, 8), 10)

    def load(self, setting: Setting, streams: Streams) -> Dataset:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        images = pixels.reshape(-1, 1, 8, 8)
        order = streams("split").permutation(len(labels))
        cut = round(len(labels) * self.test_fraction)
        test, train = order[:cut], order[cut:]
        images = ((images - images[train].mean()) / images[train].std()).astype(np.float32)
        labels = labels.astype(np.int64)
        return Dataset(images[train], labels[train], images[test], labels[test], tuple("0123456789"))
