"""Devices that never drop out, or by chance: independently, in groups that share their fate, for a while, by night."""

from dataclasses import dataclass, field
from functools import cached_property
from math import cos, tau
from typing import Annotated

import numpy as np
from pydantic import Discriminator, Field, Tag

from simfl.core.distributions import Probabilities, all_equal, length_problems, per_client, probabilities, reaching
from simfl.core.errors import amount, there_are
from simfl.core.rng import DrawBounds, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Bools, Floats, Integers
from simfl.devices.base import AVAILABILITY, Available

Size = Annotated[int, Field(ge=1, le=10**9)]

Rounds = Annotated[float, Field(ge=1, le=1e9)]

RoundsPerClient = Annotated[
    Annotated[Rounds, Tag("number")] | Annotated[tuple[Rounds, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "number"),
]


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

    dropout: Floats

    def draw(self, round: int, now_s: float) -> Bools:
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

    dropout: Floats
    streams: Streams

    def draw(self, round: int, now_s: float) -> Bools:
        return self._bounds.compare(self.streams("availability", round))

    @cached_property
    def _bounds(self) -> DrawBounds:
        return DrawBounds.of(self.dropout)


@AVAILABILITY("correlated")
@dataclass(frozen=True, kw_only=True)
class Correlated:
    """In every round whole groups fail together, and each client may be missing on its own as well."""

    groups: Annotated[
        Annotated[Size, Tag("number")] | Annotated[tuple[Size, ...], Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "number"),
        Field(description="number of groups (client i is in group i modulo it), or the sizes of consecutive groups"),
    ]
    group_dropout: Annotated[
        Probabilities, Field(description="probability that a group is away: a number, one a group, or drawn for each")
    ]
    dropout: Annotated[
        Probabilities, Field(description="probability that a client of a present group is away, in the same forms")
    ] = 0.0

    timeless = True
    example = {"groups": 3, "group_dropout": {"name": "uniform", "low": 0.1, "high": 0.9}, "dropout": 0.2}

    @property
    def equal_rates(self) -> bool:
        """Whether all clients certainly drop out equally often."""
        return all_equal(self.group_dropout) and all_equal(self.dropout)

    @property
    def _count(self) -> int:
        return len(self.groups) if isinstance(self.groups, tuple) else self.groups

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = length_problems("dropout", self.dropout, setting.clients)
        problems += length_problems("group_dropout", self.group_dropout, self._count, "groups")
        problems += reaching("dropout", self.dropout, most=1) + reaching("group_dropout", self.group_dropout, most=1)
        if isinstance(self.groups, tuple) and sum(self.groups) != setting.clients:
            problems.append(
                ("groups", f"the sizes add up to {sum(self.groups)} but {there_are(setting.clients, 'client')}")
            )
        elif self._count > setting.clients:
            remedy = f"the nearest valid value is {setting.clients}"
            problems.append(
                ("groups", f"{there_are(self._count, 'group')} for {amount(setting.clients, 'client')}; {remedy}")
            )
        return problems

    def build(self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None) -> "SharedFate":
        clients = np.arange(setting.clients)
        group = (
            np.repeat(np.arange(self._count), self.groups) if isinstance(self.groups, tuple) else clients % self.groups
        )
        shared = probabilities("group_dropout", self.group_dropout, self._count, streams("dropout/group"))
        individual = probabilities("dropout", self.dropout, setting.clients, streams("dropout"))
        return SharedFate(1 - (1 - shared[group]) * (1 - individual), group, shared, individual, streams)


@dataclass
class SharedFate(Available):
    """One uniform draw a group ("availability/group", round) and one a client ("availability", round).

    Attributes:
        dropout: probability of being away for either reason, shape (clients,).
        group: the group of each client, shape (clients,).
        shared: dropout of each group, shape (groups,).
        individual: dropout of each client in a present group, shape (clients,).
    """

    dropout: Floats
    group: Integers
    shared: Floats
    individual: Floats
    streams: Streams

    def draw(self, round: int, now_s: float) -> Bools:
        present = self.streams("availability/group", round).random(len(self.shared)) >= self.shared
        return present[self.group] & self._bounds.compare(self.streams("availability", round))

    @cached_property
    def _bounds(self) -> DrawBounds:
        return DrawBounds.of(self.individual)


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
class Chains(Available):
    """The chains' states; one uniform draw a client and round, from the stream ("availability", round).

    Attributes:
        dropout: long-run probability of being off, shape (clients,).
        leave, come: probabilities of going off and on between two rounds, shape (clients,).
        on: the last states; None before the first round.
    """

    dropout: Floats
    leave: Floats
    come: Floats
    streams: Streams
    on: Bools | None = field(default=None, init=False)

    def draw(self, round: int, now_s: float) -> Bools:
        u = self.streams("availability", round).random(len(self.dropout))
        self.on = u >= (self.dropout if self.on is None else np.where(self.on, self.leave, 1 - self.come))
        return self.on.copy()

    def state(self) -> Arrays:
        return {} if self.on is None else {"on": self.on.copy()}

    def restore(self, state: Arrays) -> None:
        self.on = np.array(state["on"], dtype=bool) if "on" in state else None


@AVAILABILITY("daily")
@dataclass(frozen=True, kw_only=True)
class Daily:
    """In every round each client is unavailable with a probability that swings about its own over a day: at night it is
    up to twice as high, by day as low as 0, so that the mean over whole days is the client's own.
    """

    dropout: Annotated[
        Probabilities, Field(description="mean probability of being unavailable, over a day; forms as of bernoulli")
    ]
    rounds_a_day: Annotated[int, Field(ge=2, le=10**6, description="rounds after which the time of day returns")] = 24
    zones: Annotated[
        int, Field(ge=1, le=1000, description="time zones, evenly around the clock; client i lives in zone i modulo it")
    ] = 1

    timeless = True
    example = {"dropout": 0.3, "rounds_a_day": 8, "zones": 3}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return [*length_problems("dropout", self.dropout, setting.clients), *reaching("dropout", self.dropout, most=1)]

    def build(self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None) -> "Days":
        rates = probabilities("dropout", self.dropout, setting.clients, streams("dropout"))
        return Days(rates, self.rounds_a_day, self.zones, streams)


@dataclass
class Days(Available):
    """One uniform draw a client and round, from the stream ("availability", round), as of independent dropout.

    Attributes:
        dropout: mean probability of being away over a day, shape (clients,).
        rounds_a_day, zones: see :class:`Daily`.
    """

    dropout: Floats
    rounds_a_day: int
    zones: int
    streams: Streams

    def draw(self, round: int, now_s: float) -> Bools:
        return self.streams("availability", round).random(len(self.dropout)) >= self.now(round)

    def now(self, round: int) -> Floats:
        """Probability of being away in a round, shape (clients,)."""
        hour = round % self.rounds_a_day / self.rounds_a_day
        night = np.array([cos(tau * (hour + zone / self.zones)) for zone in range(self.zones)])
        swing = np.minimum(self.dropout, 1 - self.dropout)
        return self.dropout + swing * night[np.arange(len(self.dropout)) % self.zones]
