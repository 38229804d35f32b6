"""Buffered asynchronous training: FedBuff (Nguyen et al., AISTATS 2022) and what public code makes of it.

The server's step on a buffer of K updates, each Δ_i from the model version that its client downloaded, is

    x(t+1) = x(t) + η_g Σ e_i s(τ_i) Δ_i / Z,    τ_i = t - version downloaded,

with e_i = the client's samples or 1 and Z = Σ e_i (``count``), Σ e_i s(τ_i) (``weight_sum``) or 1 (``none``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.local import LocalTraining
from simfl.training.arrivals import ARRIVALS, Clock
from simfl.training.base import RULES
from simfl.training.server import ServerStep
from simfl.training.staleness import STALENESS, Constant

__all__ = ["FedBuff", "Stop"]

Problem = tuple[str, str]


@dataclass(frozen=True)
class Stop:
    """When a run ends besides after ``rounds``: with the first server update at which one of these is reached."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    client_updates: Annotated[int | None, Field(ge=1, description="client updates aggregated")] = None
    time_s: Annotated[float | None, Field(gt=0, description="simulated seconds")] = None
    target_accuracy: Annotated[
        float | None, Field(gt=0, le=1, description="test accuracy, where it is measured (learning.evaluate.every)")
    ] = None


@RULES("fedbuff")
@dataclass(frozen=True, kw_only=True)
class FedBuff(LocalTraining, ServerStep):
    """Clients train at their own pace; the server steps whenever its buffer holds K updates."""

    concurrency: Annotated[int | None, Field(ge=1, description="clients at work at once; null = the selection's k")] = (
        None
    )
    buffer: Annotated[
        int | None, Field(ge=1, description="client updates in an aggregation, K; null = the selection's k")
    ] = None
    rounds: Annotated[int | None, Field(ge=1, le=10**9, description="server updates to make; null = see stop")] = None
    stop: Annotated[Stop, Field(description="what else ends the run")] = Stop()
    staleness: Annotated[Any, STALENESS, Field(description="how much an update of staleness τ counts, s(τ)")] = (
        Constant()
    )
    reference_staleness: Annotated[
        float, Field(ge=0, le=1e9, description="the staleness at which s is scaled to 1")
    ] = 0.0
    weighting: Annotated[
        Literal["samples", "equal"], Field(description="what s(τ) is multiplied with: the client's samples, or 1")
    ] = "samples"
    normaliser: Annotated[
        Literal["count", "weight_sum", "none"],
        Field(description="the sum is divided by the updates' count (or samples), by the sum of their weights, or not"),
    ] = "count"
    mix: Annotated[
        Literal["deltas", "models"],
        Field(description="add the clients' changes since their download, or move towards their models (as FedAsync)"),
    ] = "deltas"
    unit_weights: Annotated[
        Literal["common", "own"],
        Field(description="one staleness for a unit, at its aggregation; or each member's when its own update arrived"),
    ] = "common"
    partial: Annotated[
        bool, Field(description="the members of a unit enter the buffer one by one (this can cost the guarantee)")
    ] = False
    max_staleness: Annotated[int | None, Field(ge=0, le=10**9, description="largest staleness; null = any")] = None
    too_stale: Annotated[
        Literal["discard", "clip"],
        Field(description="updates above max_staleness are not used, or weighted as if they had just that"),
    ] = "discard"
    deadline_s: Annotated[
        float | None, Field(gt=0, description="simulated seconds after its start at which a job counts as failed")
    ] = None
    retry_s: Annotated[
        float,
        Field(gt=0, le=1e12, description="simulated seconds until the server asks again when nobody could be selected"),
    ] = 1.0
    lookahead: Annotated[
        int | None,
        Field(ge=1, description="clients selected at a time, who then start as slots get free; null = buffer"),
    ] = None
    arrivals: Annotated[Any, ARRIVALS, Field(description="what decides how stale an update is")] = Clock()

    # -- the server's arithmetic -------------------------------------------------------------------

    def discount(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """s(τ), shape (n,): the row of the participation matrix at the aggregated clients."""
        if self.max_staleness is not None:
            staleness = np.minimum(staleness, self.max_staleness)
        scale = self.staleness.weight(np.float64(self.reference_staleness))
        return self.staleness.weight(staleness) / scale

    def refuses(self, staleness: int) -> bool:
        """Whether an update (of a unit) this old is not used at all."""
        return self.too_stale == "discard" and self.max_staleness is not None and staleness > self.max_staleness

    def weights(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """e_i s(τ_i), shape (n,)."""
        return self._examples(examples) * self.discount(staleness)

    def divisor(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> float:
        """Z, what the weighted sum is divided by."""
        match self.normaliser:
            case "count":
                return float(self._examples(examples).sum())
            case "weight_sum":
                return float(self.weights(examples, staleness).sum())
            case _:
                return 1.0

    def _examples(self, examples: NDArray[np.int64]) -> NDArray[np.float64]:
        return examples.astype(float) if self.weighting == "samples" else np.ones(len(examples))

    # -- the run's end -----------------------------------------------------------------------------

    @property
    def most_rounds(self) -> int | None:
        """Server updates after which the run ends at the latest; None if only time or accuracy can end it."""
        updates = self.stop.client_updates
        bounds = [self.rounds, None if updates is None else -(-updates // self.buffer)]
        return min((bound for bound in bounds if bound is not None), default=None)

    def ends(self, rounds: int, client_updates: int, time_s: float, accuracy: float | None) -> bool:
        """Whether the run ends with the server update that brought these."""
        reached = (rounds, client_updates, time_s, accuracy)
        return any(
            limit is not None and value is not None and value >= limit
            for value, limit in zip(reached, self._limits, strict=True)
        )

    @property
    def _limits(self) -> tuple[float | None, ...]:
        return self.rounds, self.stop.client_updates, self.stop.time_s, self.stop.target_accuracy

    def resolve(self, scenario: Any) -> Self:
        """With as many updates in an aggregation, and as many clients at work, as a synchronous round would have."""
        k = scenario.selection.k or scenario.clients
        slots = k if self.concurrency is None and isinstance(self.arrivals, Clock) else self.concurrency
        return replace(self, concurrency=slots, buffer=self.buffer or k)

    # -- impossible settings -----------------------------------------------------------------------

    def check(self, scenario: Any) -> list[Problem]:
        """What cannot work in this scenario, with the values that would."""
        policy, clients = scenario.selection, scenario.clients
        problems = [*LocalTraining.check(self, scenario), *ServerStep.check(self, scenario)]
        problems += [*self._buffer(policy, clients), *self._endless(scenario.learning), *self._pointless()]
        return [*self._slots(policy.unit_size, clients), *problems] if isinstance(self.arrivals, Clock) else problems

    def _slots(self, unit: int, clients: int) -> Iterator[Problem]:
        slots = self.concurrency
        if slots < unit:
            yield "concurrency", f"is {slots}, less than a unit of {unit} clients; the nearest valid value is {unit}"
        elif slots > clients:
            yield "concurrency", f"is {slots} but there are {clients} clients; the nearest valid value is {clients}"

    def _buffer(self, policy: Any, clients: int) -> Iterator[Problem]:
        """A client is in a buffer once at most, so that a buffer can be too large to be filled."""
        unit = 1 if self.partial else policy.unit_size
        disjoint = getattr(policy, "disjoint_units", lambda clients: clients // policy.unit_size)
        most = disjoint(clients) * policy.unit_size
        low, high = self.buffer // unit * unit, -(-self.buffer // unit) * unit
        if self.buffer > most:
            yield (
                "buffer",
                f"is {self.buffer}, but of {clients} clients in units of {policy.unit_size} only {most} can always be "
                f"found that are not in the buffer yet; the nearest valid value is {most}",
            )
        elif low != self.buffer:
            near = [str(size) for size in (low, high) if 0 < size <= most]
            valid = " and ".join(near)
            yield (
                "buffer",
                f"is {self.buffer}, no multiple of the selection's unit of {unit} clients; valid are {valid}",
            )

    def _endless(self, learning: Any) -> Iterator[Problem]:
        if all(limit is None for limit in self._limits):
            yield "rounds", "nothing ends the run: give rounds, or client_updates, time_s or target_accuracy in stop"
        elif self.stop.target_accuracy is not None and not learning.evaluate_every:
            yield "stop.target_accuracy", "the model is not measured while it trains; set learning.evaluate.every to 1"

    def _pointless(self) -> Iterator[Problem]:
        if self.client.control_variates:
            yield "client", f"is {self.client.name}, whose variates need rounds; use plain or fedprox"
        if not (self.aggregate.weighted or isinstance(self.staleness, Constant)):
            name = self.aggregate.name
            yield "staleness", f"is {self.staleness.name}, but {name} counts every update once; use constant"
