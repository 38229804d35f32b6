"""Everybody who is there takes part."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES

if TYPE_CHECKING:
    from simfl.selection.theory import families


@POLICIES("all")
@dataclass(frozen=True)
class Everyone:
    """Every available client, however many they are."""

    k: Annotated[int | None, Field(ge=1, description="not used: becomes the number of clients")] = None

    unit_size = 1
    fixed_size = False

    def resolve(self, setting: ScenarioView) -> Self:
        return replace(self, k=setting.clients)

    def family(self, clients: int) -> "families.AllAvailable":
        from simfl.selection.theory import families

        return families.AllAvailable(clients)

    def select(self, view: View, k: int | None, rng: np.random.Generator) -> Units:
        """All available clients, shape (available, 1); ``k`` and the stream are not used."""
        return np.flatnonzero(view.available).astype(np.int32).reshape(-1, 1)
