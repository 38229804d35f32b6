"""Devices that die after they were selected, in the middle of their work."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Probabilities, length_problems, probabilities, reaching
from simfl.core.errors import suggestion
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import RECEIPT_PHASES
from simfl.devices.base import FAILURE, Failing


@FAILURE("none")
@dataclass(frozen=True)
class NoFailure:
    """A selected client always delivers."""

    never = True

    def rates(self, setting: ScenarioView, streams: Streams) -> NDArray[np.float64]:
        return np.zeros(setting.clients)

    def build(self, setting: ScenarioView, streams: Streams) -> "Reliable":
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
    phases: Annotated[
        dict[str, Annotated[float, Field(ge=0, le=1)]],
        Field(description="probability that a client fails in a phase of the secagg protocol, by the phase's name"),
    ] = field(default_factory=dict)

    example = {"probability": {"name": "uniform", "low": 0.1, "high": 0.9}}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return [
            *(self._unknown(setting) if self.phases else ()),
            *length_problems("probability", self.probability, setting.clients),
            *reaching("probability", self.probability, most=1),
        ]

    def _unknown(self, setting: ScenarioView) -> Iterator[tuple[str, str]]:
        """Phases that the protocol does not have. Where it has none, they count for nothing: so that a scenario with a
        protocol can be compared with plain.
        """
        name, known = setting.secagg.name, setting.secagg.phases
        if setting.selection.receipts(setting.clients) is not None:
            known = (*known, *RECEIPT_PHASES)
        for phase in sorted(self.phases.keys() - set(known)) if known else ():
            why = f"{name} has no phase '{phase}'; it has {', '.join(known)} (uploads fail with 'probability')"
            yield f"phases.{phase}", why + suggestion(phase, known)

    def rates(self, setting: ScenarioView, streams: Streams) -> NDArray[np.float64]:
        return probabilities("probability", self.probability, setting.clients, streams("failure probability"))

    def build(self, setting: ScenarioView, streams: Streams) -> "RandomFailure":
        return RandomFailure(self.rates(setting, streams), streams, self.phases)


@dataclass(frozen=True)
class Reliable(Failing):
    """No job fails, and nothing is drawn."""

    def draw(self, clients: NDArray[np.integer], where: Address, phase: str = "work") -> NDArray[np.float64]:
        return np.full(len(clients), np.nan)


@dataclass(frozen=True)
class RandomFailure(Failing):
    """One uniform draw u a job, from the stream "failure": it fails if u < p, and then at the fraction u / p.

    A protocol's phase draws from a stream of its own, "failure/phase".
    """

    probability: NDArray[np.float64]
    streams: Streams
    phases: Mapping[str, float]

    def draw(self, clients: NDArray[np.integer], where: Address, phase: str = "work") -> NDArray[np.float64]:
        p, stream = self.probability[clients], "failure"
        if phase != "work":
            p, stream = np.full(len(clients), self.phases.get(phase, 0.0)), f"failure/{phase}"
            if not p.any():
                return np.full(len(clients), np.nan)
        u = self.streams.at(stream, where, lambda rng, size: rng.random(size))
        return np.divide(u, p, out=np.full(len(clients), np.nan), where=u < p)
