"""The server's step, shared by every rule: aggregate, then optimise."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.training.aggregates import AGGREGATES, Mean
from simfl.training.base import State
from simfl.training.optimisers import SERVER_OPTIMISERS, ServerSgd

__all__ = ["ServerStep"]


@dataclass(frozen=True, kw_only=True)
class ServerStep:
    """What a rule does with the updates it has, once their weights are known."""

    server_learning_rate: Annotated[float, Field(gt=0, le=1e6, description="1 = plain average")] = 1.0
    server_optimiser: Annotated[Any, SERVER_OPTIMISERS, Field(description="what makes a step of the average")] = (
        ServerSgd()
    )
    aggregate: Annotated[Any, AGGREGATES, Field(description="how updates are averaged")] = Mean()

    def check(self, scenario: Any) -> list[tuple[str, str]]:
        problems = []
        name = self.aggregate.name
        if not self.aggregate.weighted and getattr(self, "weighting", "equal") != "equal":
            problems.append(("weighting", f"is '{self.weighting}', but {name} counts every client once; use equal"))
        protocol = getattr(getattr(scenario, "secagg", None), "name", "plain")
        if not self.aggregate.sum_only and protocol != "plain":
            problems.append(
                ("aggregate", f"{name} needs single updates, which {protocol} hides; use mean, or secagg: plain")
            )
        return problems

    def start(self, dimension: int) -> State:
        return self.server_optimiser.start(dimension)

    def step(
        self,
        model: NDArray[np.float32],
        deltas: NDArray[np.float32],
        weights: NDArray[np.float64],
        state: State,
        divisor: float | None = None,
    ) -> tuple[NDArray[np.float32], State]:
        """As :meth:`simfl.training.base.Rule.step`; the sum is divided by ``divisor``, or by the sum of the weights."""
        if not weights.any():  # only clients without samples
            return model, state
        delta = self.aggregate.combine(deltas, weights, float(weights.sum()) if divisor is None else divisor)
        change, state = self.server_optimiser.step(delta, state, self.server_learning_rate)
        return model + change, state
