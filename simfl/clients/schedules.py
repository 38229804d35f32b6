"""How the clients' learning rate goes from version to version of the model."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from math import cos, isfinite, pi
from typing import Annotated, Any, Protocol, Self

from pydantic import Field

from simfl.core.errors import PluginError, ScenarioError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry
from simfl.core.scenario_view import ScenarioView

Rounds = Annotated[int, Field(ge=1, le=10**9)]


class Schedule(Plugin, Protocol):
    """What the learning rate is multiplied with: a pure function of the model's version, which everybody knows.

    >>> [round(Cosine(rounds=4, lowest=0.1).factor(version), 3) for version in (0, 2, 4, 9)]
    [1.0, 0.55, 0.1, 0.1]
    """

    @abstractmethod
    def factor(self, version: int) -> float:
        """At least 0, for jobs that begin with the model after so many server updates."""


SCHEDULES = Registry[Schedule]("schedule", protocol=Schedule)


@SCHEDULES("constant")
@dataclass(frozen=True)
class ConstantRate:
    """The rate stays as it is."""

    def factor(self, version: int) -> float:
        return 1.0


@SCHEDULES("cosine")
@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 to ``lowest``, which then stays. Reference: Loshchilov and Hutter 2017, equation 5."""

    rounds: Annotated[Rounds | None, Field(description="of the way down; null = training.rounds")] = None
    lowest: Annotated[float, Field(ge=0, le=1, description="share of the rate at the end")] = 0.0

    def resolve(self, setting: ScenarioView) -> Self:
        """
        Raises:
            ScenarioError: nobody says how many rounds there are.
        """
        if self.rounds is not None:
            return self
        if (rounds := setting.training.most_rounds) is None:
            raise ScenarioError("rounds", "is null, and training.rounds does not say how many there are; give a number")
        return replace(self, rounds=rounds)

    def factor(self, version: int) -> float:
        assert self.rounds is not None, "resolved"
        return self.lowest + (1 - self.lowest) * (1 + cos(pi * min(version / self.rounds, 1))) / 2


@SCHEDULES("steps")
@dataclass(frozen=True)
class RateSteps:
    """Multiplied at given rounds, as ``decay_at`` and ``decay`` do it."""

    at: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(description="rounds at which it is multiplied")]
    by: Annotated[float, Field(gt=0, le=1e6, description="factor applied at each of them")] = 0.1

    example = {"at": [10, 20]}

    def factor(self, version: int) -> float:
        return float(self.by ** sum(version >= at for at in self.at))


@SCHEDULES("warm_up")
@dataclass(frozen=True)
class WarmUp:
    """In equal steps up to the whole rate. Reference: Goyal et al. 2017, section 2.2.

    Of ``rounds: 4`` the first rounds have 1/5, 2/5, 3/5 and 4/5 of what ``then`` says, whose rounds count from the
    first of the run, too.
    """

    rounds: Annotated[Rounds, Field(description="until the whole rate is reached")]
    then: Annotated[Any, SCHEDULES, Field(description="the schedule that this is multiplied with")] = field(
        default_factory=ConstantRate
    )

    example = {"rounds": 5}

    def factor(self, version: int) -> float:
        return min(1.0, (version + 1) / (self.rounds + 1)) * checked_factor(self.then, version)


def checked_factor(schedule: Schedule, version: int) -> float:
    """
    Raises:
        PluginError: its factor is no number that a rate can be multiplied with.
    """
    factor = schedule.factor(version)
    if not (isinstance(factor, (int, float)) and isfinite(factor) and factor >= 0):
        raise PluginError(
            schedule, f"has the factor {factor!r} at round {version}; it has to be a number of at least 0"
        )
    return float(factor)
