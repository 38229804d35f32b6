"""Random selection weighted towards clients that took part least (MR section 3.3)."""

from dataclasses import dataclass

import numpy as np

from simfl.core.types import Units, View
from simfl.selection.base import POLICIES
from simfl.selection.random import RandomSelection
from simfl.selection.units import blocks


@POLICIES("weighted")
@dataclass(frozen=True)
class WeightedSelection(RandomSelection):
    """The K available clients of least participation, ties at random. Reference: arXiv 2106.03328, section 3.3."""

    uniform = False
    sampling = ""

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return blocks.choose(view, 1, k, "least_total", rng)
