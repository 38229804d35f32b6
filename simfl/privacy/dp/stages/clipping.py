"""Clipping alone."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.types import Arrays, Job
from simfl.privacy.certify.maps import Clip, Map
from simfl.privacy.dp.stages.clip import clip_norms
from simfl.privacy.stage import NOT_FINITE, STAGES, Stage


@STAGES("clipping")
@dataclass(frozen=True)
class Clipping(Stage):
    """Updates are scaled down to a norm; without noise this protects nobody."""

    norm: Annotated[float, Field(gt=0, description="the largest norm of an update")] = 1.0
    order: Annotated[Literal[1, 2], Field(description="the norm: 1 = sum of magnitudes, 2 = Euclidean")] = 2

    columns = (NOT_FINITE,)

    @property
    def maps(self) -> tuple[Map, ...]:
        return (Clip(self.norm, self.order),)

    def client(
        self, vectors: NDArray[np.float32], jobs: tuple[Job, ...], state: Arrays, streams: Streams
    ) -> NDArray[np.float32]:
        return clip_norms(vectors, self.norm, self.order)
