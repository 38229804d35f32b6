"""Uniformly random selection: the FedAvg default."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.selection import blocks
from simfl.selection.base import POLICIES
from simfl.selection.sizes import Problem, at_most_clients
from simfl.types import Units, View

__all__ = ["RandomSelection"]


@POLICIES("random")
@dataclass(frozen=True)
class RandomSelection:
    """K available clients, uniformly at random. Reference: McMahan et al. 2017, Algorithm 1."""

    k: Annotated[int, Field(ge=1, description="clients in an aggregation")]

    unit_size = 1

    def check(self, scenario: Any) -> list[Problem]:
        return at_most_clients(self.k, scenario.clients)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return blocks.choose(view, 1, k, "uniform", rng)
