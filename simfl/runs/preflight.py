"""What a valid scenario would still meet when it is built, found without running it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simfl.core.errors import MissingError, PluginError, ScenarioError
from simfl.core.rng import Streams

if TYPE_CHECKING:
    from simfl.scenario import Problem, Scenario

MANY_CLIENTS = 1_000_000
"""For more clients even the arrays of latencies and rates take their time."""


@dataclass
class Preflight:
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


def run_preflight(scenario: "Scenario", deep: bool = False) -> Preflight:
    """Builds the network and the devices, and compares the headers of the data with the model.

    Fast, and without torch as far as the built-in choices go. With ``deep`` everything is loaded and built as for a
    run.
    """
    preflight = Preflight(cautions=[*scenario.notes, *scenario.cautions()])

    def attempt(build: Callable[[], Any]) -> Any:
        try:
            return build()
        except ScenarioError as error:
            preflight.problems += scenario.locate(error).problems
        except PluginError as error:
            wrong = ScenarioError("training", str(error))
            preflight.problems += scenario.locate(wrong).problems
        except MissingError as error:
            preflight.missing.append(str(error))
        return None

    if deep:
        from simfl.runs.run import build

        attempt(lambda: build(scenario))
        return preflight
    if not type(scenario.training).__module__.startswith("simfl."):  # simfl's own rules name servers that are there
        from simfl.agents.servers import server_of

        attempt(lambda: server_of(scenario.training))
    from simfl.runs.client_links import build_links

    streams, devices = Streams(scenario.seed), scenario.devices
    if scenario.clients > MANY_CLIENTS:
        preflight.unchecked.append(f"what is drawn for each of {scenario.clients:,} clients")
    else:
        if (links := attempt(lambda: build_links(scenario, streams))) is not None:
            attempt(lambda: devices.availability.build(scenario, streams, links.names))
        attempt(lambda: devices.computation.build(scenario, streams))
        attempt(lambda: devices.failure.build(scenario, streams))
    preflight.unchecked += attempt(lambda: scenario.learning.preview(scenario)) or []
    return preflight
