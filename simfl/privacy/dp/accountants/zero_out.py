"""Epsilon of each client, exact, over the rounds it really took part in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.certificate_words import EPSILON
from simfl.core.columns import Column
from simfl.core.scenario_view import ScenarioView, changing_weights
from simfl.core.types import SERVER
from simfl.privacy.accountant import ACCOUNTANTS, Accountant, History
from simfl.privacy.dp.losses import epsilon_timeline

Delta = Annotated[float, Field(gt=0, lt=1, description="delta of (epsilon, delta); well below one in the clients")]


def large_delta_cautions(delta: float, setting: ScenarioView) -> list[str]:
    """A delta with which a mechanism that shows one client's whole update would pass."""
    n = setting.clients
    return [] if delta < 1 / n else [f"delta is {delta:g}; of {n} clients, anything from {1 / n:g} on says little"]


def no_noise_cautions(setting: ScenarioView) -> list[str]:
    """That there is nothing to account, but for clients that never take part."""
    if setting.privacy.protects:
        return []
    return ["no stage adds noise, so that epsilon is infinite (left empty) for all who take part; "
            "e.g. privacy.stages=[central_gaussian]"]  # fmt: skip


def departure_cautions(setting: ScenarioView) -> list[str]:
    """That clients leave as their data decide, beside noise, which covers their updates only."""
    if not (setting.training.algorithm.follows_data and setting.privacy.protects):
        return []
    name = setting.training.algorithm.name
    why = f"clients of training.client: {name} leave after a look at their models, so who takes part depends on data"
    return [f"{why}, which no noise covers: epsilon is infinite (left empty)"]


@ACCOUNTANTS("zero_out")
@dataclass(frozen=True)
class ZeroOut(Accountant):
    """What the stages' noise leaves to be learned of each client by who knows which rounds it took part in.

    Adjacency: all updates of one client against none of them. No sampling is assumed, so that any policy will do; it
    must not look at data. Weights, drops and shares of noise are those of the run. Gaussian noise is accounted exactly,
    but where weights grow with data: epsilon is then at most what is printed.
    """

    delta: Delta = 1e-5

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_max", "Largest ε", "number", "Largest epsilon of a client so far, by zero-out adjacency; empty "
               "where it is infinite.", -1, "end", words="largest ε of a client", **EPSILON),
        Column("epsilon_median", "Median ε", "number", "Median of all clients' epsilons so far, by zero-out adjacency; "
               "empty where it is infinite.", -1, "end", words="median ε of the clients", **EPSILON),
    )  # fmt: skip

    @property
    def epsilon_delta(self) -> float:  # type: ignore[override]  # a constant where there is none
        return self.delta

    def cautions(self, setting: ScenarioView) -> list[str]:
        at_most = "clients weigh what their growing samples say, and count with all that they will ever hold: each " \
            "epsilon is at most what is printed"  # fmt: skip
        growing = [at_most] if changing_weights(setting) and setting.privacy.protects else []
        return [*no_noise_cautions(setting), *departure_cautions(setting), *large_delta_cautions(self.delta, setting),
                *growing]  # fmt: skip

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        epsilons = epsilon_timeline(history, self.delta)
        return {"epsilon_max": _finite_or_none(epsilons.most), "epsilon_median": _finite_or_none(epsilons.median)}

    def clients(self, history: History) -> Mapping[str, NDArray[np.generic]]:
        matrix = history.participation.get(SERVER)
        if matrix is None:  # clients aggregate, whom no stage protects from one another
            return {}
        return {"rounds": np.bincount(matrix.indices, minlength=matrix.shape[1]),
                "epsilon": epsilon_timeline(history, self.delta).last}  # fmt: skip


def _finite_or_none(values: NDArray[np.float64]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
