"""scikit-learn's copy of the UCI handwritten digits: 1,797 images of 8 x 8 pixels."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.learning.data.base import DATA, Dataset
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["Digits"]


@DATA("digits")
@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8 x 8 pixels, built in; mean 0, variance 1. Reference: Alpaydin & Kaynak 1998."""

    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the samples kept for the test")] = 0.2

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
