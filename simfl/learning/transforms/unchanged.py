"""Data as they are."""

from dataclasses import dataclass

from simfl.learning.data.base import Dataset
from simfl.learning.transforms.base import TRANSFORMS, Transform
from simfl.rng import Streams

__all__ = ["Unchanged"]


@TRANSFORMS("none")
@dataclass(frozen=True)
class Unchanged(Transform):
    """Data as they are."""

    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        return data
