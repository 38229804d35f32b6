"""Uniformly random selection: the FedAvg default."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.selection.base import POLICIES
from simfl.types import Units, View

__all__ = ["RandomSelection"]


@POLICIES("random")
@dataclass(frozen=True)
class RandomSelection:
    """K available clients, uniformly at random. Reference: McMahan et al. 2017, Algorithm 1."""

    k: Annotated[int, Field(ge=1, description="clients in an aggregation")]

    unit_size = 1

    def check(self, scenario: Any) -> list[tuple[str, str]]:
        if self.k <= scenario.clients:
            return []
        return [("k", f"is {self.k} but there are {scenario.clients} clients; the nearest valid value is {scenario.clients}")]

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        available = np.flatnonzero(view.available)
        if len(available) < k:
            return np.empty((0, 1), dtype=np.int32)
        chosen = rng.choice(available, size=k, replace=False, shuffle=False)
        return np.sort(chosen).astype(np.int32).reshape(k, 1)
