"""What a valid scenario would still meet when it is built, found without playing it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simfl.errors import MissingError, ScenarioError
from simfl.rng import Streams

if TYPE_CHECKING:
    from simfl.scenario import Problem, Scenario

__all__ = ["Examined", "examine"]

MANY_CLIENTS = 1_000_000
"""For more clients even the arrays of latencies and rates take their time."""


@dataclass
class Examined:
    """What was found.

    Attributes:
        problems: why it cannot be built, each with its place.
        missing: what is not here (data, extras, devices) and how to get it.
        unchecked: what was not looked at.
        cautions: what works, but is perhaps not what was meant.
    """

    problems: list["Problem"] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


def examine(scenario: "Scenario", deep: bool = False) -> Examined:
    """Builds the network and the devices, and compares the headers of the data with the model.

    Fast, and without torch as far as the built-in choices go. With ``deep`` everything is loaded and built as for a
    run.
    """
    found = Examined(cautions=scenario.cautions())

    def attempt(build: Callable[[], Any]) -> Any:
        try:
            return build()
        except ScenarioError as error:
            found.problems += scenario.located(error).problems
        except MissingError as error:
            found.missing.append(str(error))
        return None

    if deep:
        from simfl.run import build

        attempt(lambda: build(scenario))
        return found
    streams, devices = Streams(scenario.seed), scenario.devices
    if scenario.clients > MANY_CLIENTS:
        found.unchecked.append(f"what is drawn for each of {scenario.clients:,} clients")
    else:
        if (links := attempt(lambda: scenario.network.build(scenario, streams))) is not None:
            attempt(lambda: devices.availability.build(scenario, streams, links.names))
        attempt(lambda: devices.computation.build(scenario, streams))
        attempt(lambda: devices.failure.build(scenario, streams))
    found.unchecked += attempt(lambda: scenario.learning.preview(scenario)) or []
    return found
