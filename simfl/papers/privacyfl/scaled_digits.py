"""The digits as PrivacyFL has them."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins import ScenarioView, Streams
from simfl.plugins.data import read_digits
from simfl.plugins.learning import DATA, Dataset, Outline

TEST = 300


@DATA("privacyfl_digits")
@dataclass(frozen=True)
class PrivacyFLDigits:
    """The built-in digits with features between 0 and 1, the last 300 of them for the test (Mugunthan, MIT 2022)."""

    def outline(self, setting: ScenarioView) -> Outline:
        return Outline((64,), 10)

    by_seed = False

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        pixels, labels = read_digits()
        least, span = pixels.min(axis=0), np.ptp(pixels, axis=0)
        x = ((pixels - least) / np.where(span > 0, span, 1)).astype(np.float32)
        return Dataset(x[:-TEST], labels[:-TEST], x[-TEST:], labels[-TEST:], tuple("0123456789"))
