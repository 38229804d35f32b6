"""Clipping alone."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from simfl.privacy.certify.maps import Clip, Map
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
