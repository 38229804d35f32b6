"""Samples drawn from a known distribution, for tests and for scenarios without files."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import DATA, Dataset, Outline
from simfl.learning.data.limits import check_values

Count = Annotated[int, Field(ge=1, le=10**8)]


@DATA("synthetic")
@dataclass(frozen=True)
class Synthetic:
    """Gaussian classes: a sample is its class's centre plus standard normal noise, in every coordinate.

    The centres are drawn once from N(0, separation^2 / features) in every coordinate, so that two centres are
    about sqrt(2) * separation apart, whatever the number of features.
    """

    samples: Annotated[Count, Field(description="training samples")] = 2000
    test_samples: Annotated[Count, Field(description="test samples")] = 500
    shape: Annotated[
        tuple[Annotated[int, Field(ge=1, le=10_000)], ...],
        Field(min_length=1, max_length=3, description="of one sample: [features] or [channels, height, width]"),
    ] = (20,)
    classes: Annotated[int, Field(ge=2, le=10_000, description="number of classes, equally likely")] = 4
    separation: Annotated[float, Field(ge=0, le=1e6, description="distance scale between class centres")] = 4.0

    def outline(self, setting: ScenarioView) -> Outline:
        values = (self.samples + self.test_samples) * prod(self.shape)
        check_values(values, 0, f"{values:,} synthetic numbers", "samples")
        return Outline(self.shape, self.classes)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        self.outline(setting)
        features = prod(self.shape)
        centres = streams("synthetic centres").standard_normal((self.classes, features), dtype=np.float32)
        centres *= np.float32(self.separation / np.sqrt(features))
        parts: dict[str, Any] = {}
        for number, (part, samples) in enumerate((("train", self.samples), ("test", self.test_samples))):
            rng = streams("synthetic samples", number)
            labels = rng.integers(self.classes, size=samples)
            x = rng.standard_normal((samples, features), dtype=np.float32)
            x += centres[labels]
            parts |= {f"x_{part}": x.reshape(samples, *self.shape), f"y_{part}": labels}
        return Dataset(**parts, label_names=tuple(str(label) for label in range(self.classes)))
