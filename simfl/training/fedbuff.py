"""Buffered asynchronous training: FedBuff (Nguyen et al., AISTATS 2022) and what public code makes of it.

The server's step on a buffer of K updates, each Δ_i from the model version that its client downloaded, is

    x(t+1) = x(t) + η_g Σ e_i s(τ_i) Δ_i / Z,    τ_i = t - version downloaded,

with e_i = the client's samples or 1 and Z = Σ e_i (``count``), Σ e_i s(τ_i) (``weight_sum``) or 1 (``none``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from simfl.core.errors import amount, there_are
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, Integers, Vectors
from simfl.training.base import RULES
from simfl.training.sgd_rule import SgdRule
from simfl.training.staleness import ARRIVALS, STALENESS, Clock, ConstantStaleness, PolynomialStaleness

Problem = tuple[str, str]


@RULES("fedbuff")
@dataclass(frozen=True, kw_only=True)
class FedBuff(SgdRule):
    """Clients train at their own pace; the server steps whenever its buffer holds K updates."""

    concurrency: Annotated[int | None, Field(ge=1, description="clients at work at once; null = the selection's k")] = (
        None
    )
    buffer: Annotated[
        int | None, Field(ge=1, le=10**9, description="client updates in an aggregation, K; null = the selection's k")
    ] = None
    staleness: Annotated[Any, STALENESS, Field(description="how much an update of staleness τ counts, s(τ)")] = (
        ConstantStaleness()
    )
    reference_staleness: Annotated[
        float, Field(ge=0, le=1e9, description="the staleness at which s is scaled to 1")
    ] = 0.0
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

    asynchronous: ClassVar[bool] = True
    example: ClassVar[Mapping[str, object]] = {"rounds": 2}

    @property
    def server(self) -> str:
        """The server that runs it: the one that its arrivals name."""
        return self.arrivals.server

    # -- the server's arithmetic -------------------------------------------------------------------

    def contributions(self, deltas: Vectors, downloaded: Callable[[], Sequence[Vectors]], model: Vectors) -> Vectors:
        """The changes or, where models are mixed, the way from the current model to each client's."""
        return deltas if self.mix == "deltas" else deltas + np.stack(downloaded()) - model

    def row(self, staleness: Integers) -> Floats:
        """s(τ), shape (n,)."""
        if self.max_staleness is not None:
            staleness = np.minimum(staleness, self.max_staleness)
        scale = self.staleness.weight(np.float64(self.reference_staleness))
        return self.staleness.weight(staleness) / scale

    def refuses(self, staleness: int) -> bool:
        """Whether an update (of a unit) this old is not used at all."""
        return self.too_stale == "discard" and self.max_staleness is not None and staleness > self.max_staleness

    def weights(self, examples: Integers, staleness: Integers) -> Floats:
        """e_i s(τ_i), shape (n,)."""
        return super().weights(examples, staleness) * self.row(staleness)

    def divisor(self, weights: Floats, examples: Integers) -> float:
        """Z, what the weighted sum is divided by."""
        match self.normaliser:
            case "count":
                return float(super().weights(examples, examples).sum())
            case "weight_sum":
                return float(weights.sum())
            case _:
                return 1.0

    @property
    def weighs_staleness(self) -> bool:
        """Whether an update can be older than those of full weight."""
        rounds = self.most_rounds
        bounds = (self.max_staleness, self.arrivals.oldest, None if rounds is None else rounds - 1)
        oldest = min((bound for bound in bounds if bound is not None), default=inf)
        return bool(oldest > self.staleness.level_until)

    @property
    def keeps_changes(self) -> bool:
        return type(self).contributions is FedBuff.contributions

    @property
    def sends_changes(self) -> bool:
        """Where models are mixed the server makes of each what it adds up."""
        return self.mix == "deltas" and type(self).contributions is FedBuff.contributions

    @property
    def keeps_units(self) -> bool:
        """Whether units are aggregated whole, each with one weight, and only their sum is seen."""
        return not self.partial and self.unit_weights != "own" and self.aggregate.sum_only

    def resolve(self, scenario: ScenarioView) -> Self:
        """With as many updates in an aggregation, and as many clients at work, as a synchronous round would have."""
        k = scenario.selection.k or scenario.clients
        slots = k if self.concurrency is None and self.arrivals.clocked else self.concurrency
        return replace(self, concurrency=slots, buffer=self.buffer or k)

    # -- impossible settings -----------------------------------------------------------------------

    def check(self, scenario: ScenarioView) -> list[Problem]:
        """What cannot work in this scenario, with the values that would."""
        policy, clients = scenario.selection, scenario.clients
        problems = super().check(scenario)
        problems += self._buffer(policy, clients)
        if not (self.aggregate.weighted or isinstance(self.staleness, ConstantStaleness)):
            name = self.aggregate.name
            why = f"is {self.staleness.name}, but {name} counts every update once; use constant"
            problems.append(("staleness", why))
        if self.deadline_s is not None and not self.arrivals.clocked:
            why = f"has no effect, as arrivals: {self.arrivals.name} has no clock; leave it out"
            problems.append(("deadline_s", why))
        if not self.arrivals.clocked and not (scenario.agents.all_standard and not scenario.network.loss):
            why = f"is {self.arrivals.name}, without a clock by which clients act or messages are lost"
            problems.append(("arrivals", f"{why}; use clock, or agents.client: standard and no network.loss"))
        if scenario.secagg.joint:
            why = (
                f"clients come and go one by one, but secagg: {scenario.secagg.name} needs one cohort from its first "
                "phase to its last; use training: fedavg, or secagg: basecagg, whose masks belong to jobs"
            )
            problems.append(("name", why))
        return [*self._slots(policy.unit_size, clients), *problems] if self.arrivals.clocked else problems

    def _slots(self, unit: int, clients: int) -> Iterator[Problem]:
        slots = self.concurrency or 0
        if slots < unit:
            why = f"is {slots}, less than a unit of {amount(unit, 'client')}; the nearest valid value is {unit}"
            yield "concurrency", why
        elif slots > clients:
            yield "concurrency", f"is {slots} but {there_are(clients, 'client')}; the nearest valid value is {clients}"

    def _buffer(self, policy: Any, clients: int) -> Iterator[Problem]:
        """A client is in a buffer once at most, so that a buffer can be too large to be filled."""
        unit = 1 if self.partial else policy.unit_size
        most = policy.disjoint_units(clients) * policy.unit_size
        size = self.buffer or 0
        low, high = size // unit * unit, -(-size // unit) * unit
        if size > most:
            yield (
                "buffer",
                f"is {size}, but of {clients} clients in units of {policy.unit_size} only {most} can always be "
                f"found that are not in the buffer yet; the nearest valid value is {most}",
            )
        elif low != size:
            valid = " and ".join(str(near) for near in (low, high) if 0 < near <= most)
            yield ("buffer", f"is {size}, no multiple of the selection's unit of {unit} clients; valid are {valid}")


@RULES("fedbuff_paper")
@dataclass(frozen=True, kw_only=True)
class FedBuffPaper(FedBuff):
    """FedBuff as published: K updates of equal weight, each times s(τ), here 1/sqrt(1 + τ) unless set, divided by K.

    Reference: Nguyen et al. 2022 (arXiv 2106.06639), Algorithm 1 and section 5.
    """

    staleness: Annotated[Any, STALENESS, Field(description="how much an update of staleness τ counts, s(τ)")] = (
        PolynomialStaleness()
    )
    weighting: Annotated[Literal["equal"], Field(description="every client counts the same")] = "equal"
    normaliser: Annotated[Literal["count"], Field(description="the sum is divided by K")] = "count"
    mix: Annotated[Literal["deltas"], Field(description="changes since the download are summed")] = "deltas"


@RULES("fedasync")
@dataclass(frozen=True, kw_only=True)
class FedAsync(FedBuff):
    """Unbuffered: every arriving model is mixed in, x <- (1 - α s(τ)) x + α s(τ) x_i, α = server_learning_rate.

    Reference: Xie et al. 2019 (arXiv 1903.03934), Algorithm 1.
    """

    buffer: Annotated[Literal[1], Field(description="every update is aggregated at once")] = 1
    staleness: Annotated[Any, STALENESS, Field(description="how much an update of staleness τ counts, s(τ)")] = (
        PolynomialStaleness()
    )
    weighting: Annotated[Literal["equal"], Field(description="every client counts the same")] = "equal"
    normaliser: Annotated[Literal["count"], Field(description="the mixing weight is α s(τ)")] = "count"
    mix: Annotated[Literal["models"], Field(description="models are mixed, not changes")] = "models"
    server_learning_rate: Annotated[float, Field(gt=0, le=1, description="mixing weight α of a fresh model")] = 0.6


@RULES("flsim")
@dataclass(frozen=True, kw_only=True)
class FLSim(FedBuff):
    """The buffered aggregator of FLSim: a weighted sum that nothing divides; s(τ) is scaled to 1 at τ = 1.

    With constant staleness a step is thus K times as long as FedBuff's at the same server learning rate.
    Reference: github.com/facebookresearch/FLSim, optimizers/async_aggregators.py and
    utils/async_trainer/async_staleness_weights.py. Its open-loop arrivals (clients start at a rate, the same one
    perhaps twice at a time) and its flush of a partly filled buffer at the end of an epoch are not imitated.
    """

    weighting: Annotated[
        Literal["samples", "equal"], Field(description="what s(τ) is multiplied with: the client's samples, or 1")
    ] = "equal"
    normaliser: Annotated[Literal["none"], Field(description="nothing divides the sum")] = "none"
    mix: Annotated[Literal["deltas"], Field(description="changes since the download are summed")] = "deltas"
    reference_staleness: Annotated[
        float, Field(ge=0, le=1e9, description="the staleness at which s is scaled to 1")
    ] = 1.0
