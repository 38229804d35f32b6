"""Data as they are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.learning.data.base import Dataset
from simfl.learning.transforms.base import TRANSFORMS, Transform


@TRANSFORMS("none")
@dataclass(frozen=True)
class Unchanged(Transform):
    """Data as they are."""

    def origins(self, samples: int) -> NDArray[np.int64]:
        return np.arange(samples)

    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        return data
