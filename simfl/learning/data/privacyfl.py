"""The digits as PrivacyFL takes them."""

from dataclasses import dataclass

import numpy as np

from simfl.learning.data.base import DATA, Dataset, Outline
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["PrivacyFLDigits"]

TEST = 300


@DATA("privacyfl_digits")
@dataclass(frozen=True)
class PrivacyFLDigits:
    """The built-in digits with features between 0 and 1, the last 300 of them for the test (Mugunthan, MIT 2022)."""

    def outline(self, setting: Setting) -> Outline:
        return Outline((64,), 10)

    def load(self, setting: Setting, streams: Streams) -> Dataset:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        least, span = pixels.min(axis=0), np.ptp(pixels, axis=0)
        x = ((pixels - least) / np.where(span > 0, span, 1)).astype(np.float32)
        y = labels.astype(np.int64)
        return Dataset(x[:-TEST], y[:-TEST], x[-TEST:], y[-TEST:], tuple("0123456789"))
