"""Devices that stay on for a while and off for a while."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag

from simfl.core.distributions import all_equal, length_problems, per_client
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays
from simfl.devices.base import AVAILABILITY

Rounds = Annotated[float, Field(ge=1, le=1e9)]
RoundsPerClient = Annotated[
    Annotated[Rounds, Tag("number")] | Annotated[tuple[Rounds, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "number"),
]


@AVAILABILITY("markov")
@dataclass(frozen=True, kw_only=True)
class Markov:
    """Each client is a two-state chain over the rounds, started in its long-run distribution (Gilbert 1960)."""

    mean_on_rounds: Annotated[
        RoundsPerClient, Field(description="mean rounds that a client stays available: a number, or one a client")
    ]
    mean_off_rounds: Annotated[
        RoundsPerClient, Field(description="mean rounds that a client stays away: a number, or one a client")
    ]

    independent = True
    timeless = True
    example = {"mean_on_rounds": 3, "mean_off_rounds": 2}

    @property
    def equal_rates(self) -> bool:
        """Whether all clients certainly drop out equally often."""
        return all_equal(self.mean_on_rounds) and all_equal(self.mean_off_rounds)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = length_problems("mean_on_rounds", self.mean_on_rounds, setting.clients)
        return problems + length_problems("mean_off_rounds", self.mean_off_rounds, setting.clients)

    def build(self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None) -> "Chains":
        unused = streams("dropout")  # means are given, never drawn
        mean_on = per_client(self.mean_on_rounds, setting.clients, unused)
        mean_off = per_client(self.mean_off_rounds, setting.clients, unused)
        return Chains(mean_off / (mean_on + mean_off), 1 / mean_on, 1 / mean_off, streams)


@dataclass
class Chains:
    """The chains' states; one uniform draw a client and round, from the stream ("availability", round).

    Attributes:
        dropout: long-run probability of being off, shape (clients,).
        leave, come: probabilities of going off and on between two rounds, shape (clients,).
        on: the last states; None before the first round.
    """

    dropout: NDArray[np.float64]
    leave: NDArray[np.float64]
    come: NDArray[np.float64]
    streams: Streams
    on: NDArray[np.bool_] | None = field(default=None, init=False)

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        u = self.streams("availability", round).random(len(self.dropout))
        self.on = u >= (self.dropout if self.on is None else np.where(self.on, self.leave, 1 - self.come))
        return self.on.copy()

    def state(self) -> Arrays:
        return {} if self.on is None else {"on": self.on.copy()}

    def restore(self, state: Arrays) -> None:
        self.on = np.array(state["on"], dtype=bool) if "on" in state else None
