"""Devices that drop out independently of one another and of the past."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.devices.base import AVAILABILITY
from simfl.distributions import Probabilities, equal, listed, probabilities, reaching
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["Bernoulli"]


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
    def equal(self) -> bool:
        """Whether all clients certainly drop out equally often."""
        return equal(self.dropout)

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        return [*listed("dropout", self.dropout, setting.clients), *reaching("dropout", self.dropout, most=1)]

    def build(self, setting: Setting, streams: Streams, names: tuple[str, ...] | None = None) -> "IndependentDropout":
        rates = probabilities("dropout", self.dropout, setting.clients, streams("dropout"))
        return IndependentDropout(rates, streams)


@dataclass
class IndependentDropout:
    """One uniform draw a client and round, from the stream ("availability", round)."""

    dropout: NDArray[np.float64]
    streams: Streams

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        return self.streams("availability", round).random(len(self.dropout)) >= self.dropout

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        pass
