"""Everybody who is there takes part."""

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from simfl.selection import families
from simfl.selection.base import POLICIES
from simfl.setting import Setting
from simfl.types import Units, View

__all__ = ["Everyone"]


@POLICIES("all")
@dataclass(frozen=True)
class Everyone:
    """Every available client, however many they are."""

    k: Annotated[int | None, Field(ge=1, description="not used: becomes the number of clients")] = None

    unit_size = 1
    fixed_size = False

    def resolve(self, setting: Setting) -> Self:
        return replace(self, k=setting.clients)

    def family(self, clients: int) -> families.Everyone:
        return families.Everyone(clients)

    def select(self, view: View, k: int | None, rng: np.random.Generator) -> Units:
        """All available clients, shape (available, 1); ``k`` and the stream are not used."""
        return np.flatnonzero(view.available).astype(np.int32).reshape(-1, 1)
