"""Synchronous federated averaging (McMahan et al. 2017, Algorithm 1), and without a server (Mugunthan, MIT 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import LATE, Column
from simfl.core.errors import ScenarioError, amount
from simfl.core.registration.protocol import SINCE_LATER, default_of
from simfl.core.scenario_view import ScenarioView, dropout_rates
from simfl.training.base import RULES, Losses
from simfl.training.sgd_rule import SgdRule


@RULES("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(SgdRule):
    """Every round the server waits for the selected clients and averages their updates."""

    on_failure: Annotated[
        Literal["drop_unit", "abort", "partial"],
        Field(description="after a mid-round failure: drop the client's unit, skip the round, or sum the survivors"),
    ] = "drop_unit"
    deadline_s: Annotated[
        float | None, Field(gt=0, le=1e12, description="simulated seconds after which missing clients count as failed")
    ] = None
    quorum: Annotated[
        Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] | None,
        Field(
            description="the round continues as soon as whole units with so many clients (or, with a point, this share "
            "of those selected) have arrived, and cancels the others; null: it waits for all"
        ),
    ] = field(default=None, metadata=SINCE_LATER)
    skipped_round_s: Annotated[
        float,
        Field(ge=0, le=1e12, description="simulated seconds until the server asks again when too few are available"),
    ] = 1.0
    announce: Annotated[
        bool, Field(description="send the new model to the round's clients as soon as it exists (costs bytes, no time)")
    ] = False
    denominator: Annotated[
        Literal["weights", "expected"] | Annotated[float, Field(gt=0, le=1e12)],
        Field(
            description="what the weighted sum is divided by: the weights of the clients in it; or, whoever came, the "
            "number of clients that the selection expects, or a given number; a round without clients is then a step, "
            "too"
        ),
    ] = "weights"

    server: ClassVar[str] = "synchronous"
    example: ClassVar[Mapping[str, object]] = {"rounds": 2}

    @property
    def keeps_units(self) -> bool:
        """Whether units are aggregated whole, and only their sum is seen."""
        return self.on_failure != "partial" and self.aggregate.sum_only

    @property
    def losses(self) -> Losses:
        quorum = self.quorum is not None or type(self).quorum_clients is not FedAvg.quorum_clients
        return Losses(self.on_failure, self.deadline_s, quorum)

    @property
    def columns(self) -> tuple[Column, ...]:
        return () if self.quorum is None else (LATE,)

    def quorum_clients(self, selected: int) -> int | None:
        """Of so many selected clients, how many have to arrive, in whole units; None = all that can."""
        return ceil(round(self.quorum * selected, 9)) if isinstance(self.quorum, float) else self.quorum

    @property
    def fixed_denominator(self) -> float | None:
        """The denominator where it is a number: McMahan et al. 2018, section 2.3, estimator f_f."""
        return self.denominator if isinstance(self.denominator, float) else None

    def resolve(self, scenario: ScenarioView) -> Self:
        """With the number of clients that are selected on average, q N, in place of ``denominator: expected``.

        Raises:
            ScenarioError: it is not known.
        """
        return replace(self, denominator=_expected_clients(scenario)) if self.denominator == "expected" else self

    def divisor(self, weights: NDArray[np.float64], examples: NDArray[np.int64]) -> float:
        fixed = self.fixed_denominator
        return super().divisor(weights, examples) if fixed is None else fixed

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(scenario)
        if self.fixed_denominator is not None and not (self.aggregate.sum_only and self.aggregate.weighted):
            why = f"is fixed, but the aggregate {self.aggregate.name} divides no sum; use aggregate: mean, or weights"
            problems.append(("denominator", why))
        if isinstance(self.quorum, int) and (most := scenario.selection.k) is not None and self.quorum > most:
            problems.append(
                ("quorum", f"is {self.quorum}, but selection selects {amount(most, 'client')}; use at most {most}")
            )
        return problems

    def without_server(self) -> "Gossip":
        """The same training where each client averages its own model with its neighbours'.

        Raises:
            ScenarioError: a key of it is for a server.
        """
        known = {each.name for each in fields(Gossip)}
        for each in fields(self):
            if each.name not in known and getattr(self, each.name) != default_of(each):
                raise ScenarioError(each.name, "topology has no server that reads it; leave it out")
        return Gossip(**{name: getattr(self, name) for name in known})


def _expected_clients(scenario: ScenarioView) -> float:
    """Clients that are selected in a round on average; failures afterwards are not counted.

    Raises:
        ScenarioError: the availability's rates are not known.
    """
    policy = scenario.selection
    if scenario.training.losses and scenario.training.losses.quorum:
        why = "is expected, but with a quorum the fastest decide how many come; give the number of clients expected"
        raise ScenarioError("denominator", why)
    if policy.inclusion is None:
        return float(policy.k or scenario.clients)
    dropout = dropout_rates(scenario)
    if dropout is None:
        why = "is expected, but this availability has no known dropout rates; give the number of clients expected"
        raise ScenarioError("denominator", why)
    return policy.inclusion * float(np.sum(1.0 - np.asarray(dropout)))


@RULES("gossip")
@dataclass(frozen=True, kw_only=True)
class Gossip(SgdRule):
    """Every round the selected clients train models of their own, and each client averages those of its neighbours.

    ``topology`` says who are neighbours; in a star all are. Reference: Lian et al., NeurIPS 2017, Algorithm 1.
    """

    skipped_round_s: Annotated[
        float, Field(ge=0, le=1e12, description="simulated seconds until the clients try again when too few are there")
    ] = 1.0

    server: ClassVar[str] = "gossip"
    many_aggregators: ClassVar[bool] = True
    own_models: ClassVar[bool] = True
    example: ClassVar[Mapping[str, object]] = {"rounds": 2}


@RULES("serverless")
@dataclass(frozen=True, kw_only=True)
class Serverless(SgdRule):
    """Every round the selected clients send their updates to all clients, and each client averages what it gets.

    Reference: Mugunthan, MIT 2022, section 5.4.3.
    """

    skipped_round_s: Annotated[
        float, Field(ge=0, le=1e12, description="simulated seconds until the clients try again when too few are there")
    ] = 1.0

    server: ClassVar[str] = "serverless"
    many_aggregators: ClassVar[bool] = True
    example: ClassVar[Mapping[str, object]] = {"rounds": 2}

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(scenario)
        if scenario.secagg.phases:
            name = scenario.secagg.name
            why = f"is serverless, but {name} has phases that a server runs"
            problems.append(("name", f"{why}; use ideal, plain or another one without phases"))
        return problems
