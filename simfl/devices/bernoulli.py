"""Devices that drop out independently of one another and of the past."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Probabilities, all_equal, length_problems, probabilities, reaching
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.devices.base import AVAILABILITY, Available


@AVAILABILITY("always")
@dataclass(frozen=True)
class Always:
    """Every client is available in every round."""

    equal_rates = True
    independent = True
    timeless = True

    def build(self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None) -> "AlwaysOn":
        return AlwaysOn(np.zeros(setting.clients))


@dataclass
class AlwaysOn(Available):
    """Nobody is ever missing."""

    dropout: NDArray[np.float64]

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        return np.ones(len(self.dropout), dtype=bool)


@AVAILABILITY("bernoulli")
@dataclass(frozen=True)
class Bernoulli:
    """In every round each client is unavailable with its own probability, independently.

    Reference: the dropout model of "Securing Secure Aggregation" (arXiv 2106.03328), section 3.
    """

    dropout: Annotated[
        Probabilities,
        Field(
            description="probability of being unavailable: a number, one a client, {choices: [...]} to draw each "
            "client's from, or a distribution"
        ),
    ]

    independent = True
    timeless = True
    example = {"dropout": {"name": "uniform", "low": 0.1, "high": 0.9}}

    @property
    def equal_rates(self) -> bool:
        """Whether all clients certainly drop out equally often."""
        return all_equal(self.dropout)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self.dropout == 1:
            return [("dropout", "is 1, so that no client is ever available; it must be below 1")]
        return [*length_problems("dropout", self.dropout, setting.clients), *reaching("dropout", self.dropout, most=1)]

    def build(
        self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None
    ) -> "IndependentDropout":
        rates = probabilities("dropout", self.dropout, setting.clients, streams("dropout"))
        return IndependentDropout(rates, streams)


@dataclass
class IndependentDropout(Available):
    """One uniform draw a client and round, from the stream ("availability", round)."""

    dropout: NDArray[np.float64]
    streams: Streams

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        return self.streams("availability", round).random(len(self.dropout)) >= self.dropout
