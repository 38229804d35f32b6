"""Everybody who is there takes part."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from simfl.selection.base import POLICIES
from simfl.types import Units, View

__all__ = ["Everyone"]


@POLICIES("all")
@dataclass(frozen=True)
class Everyone:
    """Every available client, however many they are."""

    k: Annotated[int | None, Field(ge=1, description="not used: becomes the number of clients")] = None

    unit_size = 1
    fixed_size = False

    def resolve(self, scenario: Any) -> Self:
        return replace(self, k=scenario.clients)

    def select(self, view: View, k: int | None, rng: np.random.Generator) -> Units:
        """All available clients, shape (available, 1); ``k`` and the stream are not used."""
        return np.flatnonzero(view.available).astype(np.int32).reshape(-1, 1)
