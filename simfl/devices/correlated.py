"""Devices that share their fate: a region, a network cell, a power line."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag

from simfl.core.distributions import Probabilities, all_equal, length_problems, probabilities, reaching
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.wording import amount, there_are
from simfl.devices.base import AVAILABILITY, Available

Size = Annotated[int, Field(ge=1, le=10**9)]


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

    dropout: NDArray[np.float64]
    group: NDArray[np.int64]
    shared: NDArray[np.float64]
    individual: NDArray[np.float64]
    streams: Streams

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        present = self.streams("availability/group", round).random(len(self.shared)) >= self.shared
        alone = self.streams("availability", round).random(len(self.individual)) >= self.individual
        return present[self.group] & alone
