"""Asking a selection policy for as many whole units as it can give."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.parts import Parts
from simfl.types import Units, View

__all__ = ["ask"]


def ask(
    parts: Parts, version: int, idle: NDArray[np.bool_], participation: NDArray[np.int64], most: int, tick: int
) -> Units:
    """Units of idle clients: as many as make ``most`` clients or, while the policy finds nobody, half as many.

    Args:
        parts: the built scenario.
        version: the aggregation that is prepared.
        idle: who may be selected, bool (clients,).
        participation: aggregations so far, int64 (clients,).
        most: clients wanted, at least one unit.
        tick: number of this selection; every attempt uses the stream ("selection", tick).
    """
    policy: Any = parts.policy
    view = View(version, idle, participation)
    wanted = max(1, most // policy.unit_size)
    while True:
        units = policy.select(view, wanted * policy.unit_size, parts.streams("selection", tick))
        if units.size or wanted == 1 or not getattr(policy, "fixed_size", True):
            return units
        wanted //= 2
