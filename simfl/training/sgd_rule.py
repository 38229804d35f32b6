"""What the training rules have in common whose clients train by SGD and whose updates are averaged."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.clients.local_training import LocalTraining
from simfl.core.columns import Column
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, Integers, Vectors
from simfl.training.aggregates import AGGREGATES, Mean
from simfl.training.base import Losses, Progress, State
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
        if not (self.aggregate.sum_only or protocol.shows_updates or protocol.sums_units):
            why = f"{name} needs single updates, which {protocol.name} hides; use mean, or secagg: plain"
            problems.append(("aggregate", f"{why}, or unit_sums with a policy of units"))
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
            needs = f"{rule.algorithm.name} needs more, use training.client: plain"
            yield "name", f"{why}, and averages whole models; {needs}"
        if self.server_optimiser.start(0):
            yield "server_optimiser", f"{self.server_optimiser.name} keeps a state between steps, but {why}; use sgd"
        if self.aggregate.columns:
            yield "aggregate", f"{self.aggregate.name} reports on one aggregate a round, but {why}; use mean"

    def contributions(self, deltas: Vectors, downloaded: Callable[[], Sequence[Vectors]], model: Vectors) -> Vectors:
        return deltas

    def row(self, staleness: Integers) -> NDArray[np.number]:
        return np.ones(len(staleness), dtype=np.int64)

    def weights(self, examples: Integers, staleness: Integers) -> Floats:
        return examples.astype(float) if self.weighting == "samples" else np.ones(len(examples))

    def divisor(self, weights: Floats, examples: Integers) -> float:
        return float(weights.sum())

    def start(self, dimension: int) -> State:
        return self.server_optimiser.start(dimension)

    def step(self, model: Vectors, update: Vectors, state: State) -> tuple[Vectors, State]:
        update, state = self.server_optimiser.step(update, state, self.server_learning_rate)
        return model + update, state


Limits = tuple[int | None, int | None, float | None, int | None, float | None, int | None, int | None]


@dataclass(frozen=True)
class Stop:
    """When a run ends besides after ``rounds``: with the first server update at which one of these is reached."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    client_updates: Annotated[int | None, Field(ge=1, description="client updates aggregated")] = None
    time_s: Annotated[float | None, Field(gt=0, description="simulated seconds")] = None
    traffic_bytes: Annotated[int | None, Field(ge=1, description="bytes sent by the server and the clients")] = None
    target_accuracy: Annotated[
        float | None, Field(gt=0, le=1, description="test accuracy, where it is measured (learning.evaluate.every)")
    ] = None
    patience: Annotated[
        int | None,
        Field(ge=1, description="measured models in a row without a new lowest validation loss (evaluate.validation)"),
    ] = field(default=None, metadata=SINCE_LATER)


@dataclass(frozen=True, kw_only=True)
class RunLength:
    """How long a rule goes on."""

    rounds: Annotated[
        int | None, Field(ge=1, le=10**9, description="server rounds, skipped ones included; null = see stop")
    ] = None
    aggregations: Annotated[
        int | None, Field(ge=1, le=10**9, description="rounds that sum something; with rounds, at most so many of all")
    ] = field(default=None, metadata=SINCE_LATER)
    stop: Annotated[Stop, Field(description="what else ends the run")] = Stop()

    @property
    def most_rounds(self) -> int | None:
        """Rounds after which the run ends at the latest; None if only something else can end it."""
        return self.rounds

    @property
    def limits(self) -> Limits:
        """What ends the run, in the order of :class:`simfl.training.base.Progress`; None = no limit."""
        stop, counted = self.stop, (self.rounds, self.stop.client_updates, self.stop.time_s, self.stop.traffic_bytes)
        return *counted, stop.target_accuracy, stop.patience, self.aggregations

    @property
    def ends_by_participation(self) -> bool:
        """Whether updates, sums, time or traffic can end the run; or anything, of a rule that ends otherwise."""
        return self._ends_by(*self.limits[1:4], self.aggregations)

    @property
    def ends_by_models(self) -> bool:
        """Whether what models do on test samples can end the run; or anything, of a rule that ends otherwise."""
        return self._ends_by(*self.limits[4:6])

    def _ends_by(self, *limits: float | None) -> bool:
        mine = type(self).ends is RunLength.ends and type(self).limits is RunLength.limits
        return not mine or any(limit is not None for limit in limits)

    @property
    def needs_accuracy(self) -> bool:
        return self.stop.target_accuracy is not None

    def ends(self, progress: Progress) -> bool:
        return any(
            limit is not None and value is not None and value >= limit
            for value, limit in zip(progress, self.limits, strict=True)
        )

    def advances(self, before: Progress, after: Progress) -> bool:
        """Whether something that can end the run has come nearer; what is measured may, with every update."""
        if self.stop.target_accuracy is not None or self.stop.patience is not None:
            return True
        grown = [new > old for old, new in zip(before[:4], after[:4], strict=True)]
        limits = zip(
            (*grown, after.aggregations > before.aggregations), (*self.limits[:4], self.aggregations), strict=True
        )
        return any(more for more, limit in limits if limit is not None)

    def endless(self, setting: ScenarioView) -> Iterator[tuple[str, str]]:
        """Problems of a run that nothing ends."""
        learning = setting.learning
        counted, (target, patience) = (*self.limits[:4], self.aggregations), (e is not None for e in self.limits[4:6])
        if set(self.limits) == {None}:
            yield (
                "rounds",
                "nothing ends the run: give rounds or aggregations, or client_updates, time_s, traffic_bytes or "
                "target_accuracy in stop",
            )
        if (target or patience) and set(counted) == {None}:
            yield (
                "rounds",
                f"is needed beside stop.{'target_accuracy' if target else 'patience'}, which may never be reached",
            )
        if target and not learning.evaluate_every:
            yield "stop.target_accuracy", "the model is not measured while it trains; set learning.evaluate.every to 1"
        measured = learning.evaluate_every and any(column.name == "validation_loss" for column in learning.columns)
        if patience and not measured:
            yield "stop.patience", "needs a validation part; set learning.evaluate.validation (and every to 1)"


@dataclass(frozen=True, kw_only=True)
class SgdRule(RunLength, LocalTraining, ServerStep):
    """When the run ends, the clients' local training, and the server's step; a rule adds who is waited for."""

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        """What cannot work in this scenario; a rule's own problems come besides."""
        problems = [*LocalTraining.check(self, scenario), *ServerStep.check(self, scenario)]
        return [*problems, *self.endless(scenario)]
