"""What every rule does with the updates it has, once they are chosen: weigh, aggregate, optimise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.setting import Setting
from simfl.training.aggregates import AGGREGATES, Mean
from simfl.training.base import Losses, State
from simfl.training.optimisers import SERVER_OPTIMISERS, ServerSgd

__all__ = ["ServerStep"]


@dataclass(frozen=True, kw_only=True)
class ServerStep:
    """The server's arithmetic."""

    weighting: Annotated[
        Literal["samples", "equal"], Field(description="a client's weight in the average: its samples, or 1")
    ] = "samples"
    server_learning_rate: Annotated[float, Field(gt=0, le=1e6, description="1 = plain average")] = 1.0
    server_optimiser: Annotated[Any, SERVER_OPTIMISERS, Field(description="what makes a step of the average")] = (
        ServerSgd()
    )
    aggregate: Annotated[Any, AGGREGATES, Field(description="how updates are averaged")] = Mean()

    asynchronous: ClassVar[bool] = False
    many_aggregators: ClassVar[bool] = False

    @property
    def keeps_units(self) -> bool:
        """Not known of a rule that does not say so."""
        return False

    @property
    def by_samples(self) -> bool:
        return self.weighting == "samples"

    @property
    def losses(self) -> Losses | None:
        """Not known of a rule that does not say so."""
        return None

    def check(self, scenario: Setting) -> list[tuple[str, str]]:
        problems = []
        name, protocol = self.aggregate.name, scenario.secagg
        if not self.aggregate.weighted and self.weighting != "equal":
            problems.append(("weighting", f"is '{self.weighting}', but {name} counts every client once; use equal"))
        if not (self.aggregate.sum_only or protocol.shows_updates):
            problems.append(
                ("aggregate", f"{name} needs single updates, which {protocol.name} hides; use mean, or secagg: plain")
            )
        return problems

    def contributions(
        self,
        deltas: NDArray[np.float32],
        downloaded: Callable[[], Sequence[NDArray[np.float32]]],
        model: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        return deltas

    def row(self, staleness: NDArray[np.int64]) -> NDArray[Any]:
        return np.ones(len(staleness), dtype=np.int64)

    def weights(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return examples.astype(float) if self.weighting == "samples" else np.ones(len(examples))

    def divisor(self, weights: NDArray[np.float64], examples: NDArray[np.int64]) -> float:
        return float(weights.sum())

    def start(self, dimension: int) -> State:
        return self.server_optimiser.start(dimension)

    def step(
        self, model: NDArray[np.float32], change: NDArray[np.float32], state: State
    ) -> tuple[NDArray[np.float32], State]:
        change, state = self.server_optimiser.step(change, state, self.server_learning_rate)
        return model + change, state
