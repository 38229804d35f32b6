"""What every rule does with the updates it has, once they are chosen: weigh, aggregate, optimise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import Column
from simfl.core.scenario_view import ScenarioView
from simfl.training.aggregates import AGGREGATES, Mean
from simfl.training.base import Losses, State
from simfl.training.optimisers import SERVER_OPTIMISERS, ServerSgd


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
    own_models: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Nothing besides what every run reports."""
        return ()

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

    @property
    def sends_changes(self) -> bool:
        """Not of a rule that makes something else of them."""
        return type(self).contributions is ServerStep.contributions

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        problems = []
        name, protocol = self.aggregate.name, scenario.secagg
        if not self.aggregate.weighted and self.weighting != "equal":
            problems.append(("weighting", f"is '{self.weighting}', but {name} counts every client once; use equal"))
        if not (self.aggregate.sum_only or protocol.shows_updates):
            problems.append(
                ("aggregate", f"{name} needs single updates, which {protocol.name} hides; use mean, or secagg: plain")
            )
        for stage in scenario.privacy.stages:
            if (
                stage.changes_coordinates and not stage.observer and not self.aggregate.sum_only
            ):  # those with noise refuse it anyhow
                problems.append(("aggregate", f"{name} needs single updates, which {stage.name} codes; use mean"))
        return [*problems, *(self._beside_own_models(scenario) if self.own_models else ())]

    def _beside_own_models(self, scenario: ScenarioView) -> Iterator[tuple[str, str]]:
        """What works on the one aggregate of a round, and so on none of those of clients with models of their own."""
        rule, protocol = scenario.training, scenario.secagg
        why = "has a model in every client and no server that aggregates"
        if not protocol.sums_whoever_comes or protocol.phases:
            yield "name", f"{why}, as {protocol.name} needs; use secagg: ideal or plain"
        for stage in scenario.privacy.stages:
            yield "name", f"{why}, as the stage {stage.name} needs; use training: fedavg or fedbuff"
        if scenario.compression.codes:
            yield "name", f"{why}, as compression: {scenario.compression.name} needs; use training: fedavg or fedbuff"
        for observer in scenario.attacks:
            yield "name", f"{why}, which the attack {observer.name} observes; use training: fedavg or fedbuff"
        if not rule.algorithm.stateless or rule.algorithm.uses_outcomes:
            yield "name", f"{why}, and averages whole models; {rule.algorithm.name} needs more, use client: plain"
        if self.server_optimiser.start(0):
            yield "server_optimiser", f"{self.server_optimiser.name} keeps a state between steps, but {why}; use sgd"
        if self.aggregate.columns:
            yield "aggregate", f"{self.aggregate.name} reports on one aggregate a round, but {why}; use mean"

    def contributions(
        self,
        deltas: NDArray[np.float32],
        downloaded: Callable[[], Sequence[NDArray[np.float32]]],
        model: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        return deltas

    def row(self, staleness: NDArray[np.int64]) -> NDArray[np.number]:
        return np.ones(len(staleness), dtype=np.int64)

    def weights(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return examples.astype(float) if self.weighting == "samples" else np.ones(len(examples))

    def divisor(self, weights: NDArray[np.float64], examples: NDArray[np.int64]) -> float:
        return float(weights.sum())

    def start(self, dimension: int) -> State:
        return self.server_optimiser.start(dimension)

    def step(
        self, model: NDArray[np.float32], update: NDArray[np.float32], state: State
    ) -> tuple[NDArray[np.float32], State]:
        update, state = self.server_optimiser.step(update, state, self.server_learning_rate)
        return model + update, state
