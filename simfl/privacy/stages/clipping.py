"""Clipping alone."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.privacy.base import NOT_FINITE, STAGES, Stage
from simfl.privacy.stages.clip import clipped
from simfl.rng import Streams
from simfl.types import Arrays, Job

__all__ = ["Clipping"]


@STAGES("clipping")
@dataclass(frozen=True)
class Clipping(Stage):
    """Updates are scaled down to a norm; without noise this protects nobody."""

    norm: Annotated[float, Field(gt=0, description="the largest norm of an update")] = 1.0
    order: Annotated[Literal[1, 2], Field(description="the norm: 1 = sum of magnitudes, 2 = Euclidean")] = 2

    columns = (NOT_FINITE,)

    def client(
        self, vectors: NDArray[np.float32], jobs: tuple[Job, ...], state: Arrays, streams: Streams
    ) -> NDArray[np.float32]:
        return clipped(vectors, self.norm, self.order)
