"""Devices that die after they were selected, in the middle of their work."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.devices.base import FAILURE
from simfl.distributions import Probabilities, listed, probabilities, reaching
from simfl.rng import Address, Streams
from simfl.setting import Setting

__all__ = ["BernoulliFailure", "NoFailure"]


@FAILURE("none")
@dataclass(frozen=True)
class NoFailure:
    """A selected client always delivers."""

    def rates(self, setting: Setting, streams: Streams) -> NDArray[np.float64]:
        return np.zeros(setting.clients)

    def build(self, setting: Setting, streams: Streams) -> "Reliable":
        return Reliable()


@FAILURE("bernoulli")
@dataclass(frozen=True)
class BernoulliFailure:
    """Each job fails with the client's own probability, at a uniformly random moment of its computation."""

    probability: Annotated[
        Probabilities,
        Field(
            description="probability that a job fails: a number, one a client, {choices: [...]} to draw each "
            "client's from, or a distribution"
        ),
    ]

    example = {"probability": {"name": "uniform", "low": 0.1, "high": 0.9}}

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        return [
            *listed("probability", self.probability, setting.clients),
            *reaching("probability", self.probability, most=1),
        ]

    def rates(self, setting: Setting, streams: Streams) -> NDArray[np.float64]:
        return probabilities("probability", self.probability, setting.clients, streams("failure probability"))

    def build(self, setting: Setting, streams: Streams) -> "RandomFailure":
        return RandomFailure(self.rates(setting, streams), streams)


@dataclass(frozen=True)
class Reliable:
    """No job fails, and nothing is drawn."""

    def draw(self, clients: NDArray[np.integer], where: Address, phase: str = "work") -> NDArray[np.float64]:
        return np.full(len(clients), np.nan)


@dataclass(frozen=True)
class RandomFailure:
    """One uniform draw u a job, from the stream "failure": it fails if u < p, and then at the fraction u / p."""

    probability: NDArray[np.float64]
    streams: Streams

    def draw(self, clients: NDArray[np.integer], where: Address, phase: str = "work") -> NDArray[np.float64]:
        if phase != "work":
            return np.full(len(clients), np.nan)
        u = self.streams.at("failure", where, lambda rng, size: rng.random(size))
        p = self.probability[clients]
        return np.divide(u, p, out=np.full(len(clients), np.nan), where=u < p)
