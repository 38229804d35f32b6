"""Epsilon of each client, exact, over the rounds it really took part in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.columns import Column
from simfl.privacy.base import ACCOUNTANTS, Accountant, History
from simfl.privacy.losses import course
from simfl.setting import Setting
from simfl.types import SERVER

__all__ = ["Delta", "ZeroOut", "departing", "loose"]

Delta = Annotated[float, Field(gt=0, lt=1, description="delta of (epsilon, delta); well below one in the clients")]


def loose(delta: float, setting: Setting) -> list[str]:
    """A delta with which a mechanism that shows one client's whole update would pass."""
    n = setting.clients
    return [] if delta < 1 / n else [f"delta is {delta:g}; of {n} clients, anything from {1 / n:g} on says little"]


def departing(setting: Setting) -> list[str]:
    """That clients leave as their data decide, beside noise, which covers their updates only."""
    if not (setting.training.follows_data and setting.privacy.protects):
        return []
    name = setting.training.variant.name
    why = f"with client: {name} clients leave after a look at their own models, so that who takes part depends on data"
    return [f"{why}, which no noise covers: epsilon is infinite (left empty)"]


@ACCOUNTANTS("zero_out")
@dataclass(frozen=True)
class ZeroOut(Accountant):
    """What the stages' noise leaves to be learned of each client by who knows which rounds it took part in.

    Adjacency: all updates of one client against none of them. No sampling is assumed, so that any policy will do; it
    must not look at data. Weights, drops and shares of noise are those of the run. Gaussian noise is accounted exactly.
    """

    delta: Delta = 1e-5

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_max", "Largest ε", "number", "Largest epsilon of a client so far, by zero-out adjacency; empty "
               "where it is infinite.", -1, words="largest ε of a client"),
        Column("epsilon_median", "Median ε", "number", "Median of all clients' epsilons so far, by zero-out adjacency; "
               "empty where it is infinite.", -1, words="median ε of the clients"),
    )  # fmt: skip

    def cautions(self, setting: Setting) -> list[str]:
        return [*departing(setting), *loose(self.delta, setting)]

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        found = course(history, self.delta)
        return {"epsilon_max": _listed(found.most), "epsilon_median": _listed(found.median)}

    def clients(self, history: History) -> Mapping[str, NDArray[Any]]:
        matrix = history.participation.get(SERVER)
        if matrix is None:  # clients aggregate, whom no stage protects from one another
            return {}
        return {"rounds": np.bincount(matrix.indices, minlength=matrix.shape[1]),
                "epsilon": course(history, self.delta).last}  # fmt: skip


def _listed(values: NDArray[np.float64]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
