"""Which server runs a scenario, and what it does not obey."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from simfl.agents.aggregation.accounts import Log
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.servers import SERVERS, Server
from simfl.agents.world import World
from simfl.core.errors import PluginError, ScenarioError
from simfl.core.registration.protocol import default_of
from simfl.devices.base import is_told
from simfl.training.base import Rule

OBEYED = ("deadline_s", "quorum", "on_failure")
"""Keys of training rules that do nothing unless the server obeys them."""


def server_of(rule: Rule, of_topology: str | None = None) -> type[Server[Any]]:
    """The server that a topology names, or else a training rule.

    Raises:
        PluginError: there is none of that name.
        ScenarioError: the rule has a key that the server does not obey, other than by default.
    """
    try:
        server = SERVERS[of_topology or rule.server]
    except KeyError:
        known = ", ".join(name for name, _ in SERVERS.imported_plugins())
        place, name = ("topology", of_topology) if of_topology else (f"training '{rule.name}'", rule.server)
        raise PluginError(place, f"server is '{name}', and no server has that name ({known})") from None
    reads = vars(server).get("reads", frozenset())  # what a base class obeys, its subclasses may not
    for field in fields(rule):
        if field.name in OBEYED and field.name not in reads and getattr(rule, field.name) != default_of(field):
            why = f"server '{server.name}' does not read it; leave it out, or list it in the server's `reads`"
            raise ScenarioError(f"training.{field.name}", why)
    return server


def server_for(parts: Components[Any]) -> type[Server[Any]]:
    """The server of a built scenario.

    Raises:
        PluginError: there is none of the name that the rule gives.
        ScenarioError: the server does not obey what the scenario asks for: a key of its rule, clients that are
            processes or have agents of their own, messages that may be lost, devices that drain.
    """
    server = server_of(parts.rule, parts.topology.server)
    reasons = {
        "agents.client": not parts.agents.all_standard,
        "network.loss": parts.loss,
        "agents.engine": parts.follows_messages,
        "devices.availability": is_told(parts.available),
    }
    for key in (key for key, is_so in reasons.items() if is_so and not server.asks_agents):
        why = f"server '{server.name}' does not say asks_agents = True: it may ask clients otherwise than by gather"
        raise ScenarioError(key, f"{why}; leave it out")
    return server


def make_server(
    parts: Components[Any], world: World, on_round: Callable[[RoundResult], None], log: Log | None = None
) -> Server[Any]:
    """The server of the parts' training rule, if :func:`server_for` has nothing against it; arguments as for
    :class:`Server`.
    """
    return server_for(parts).class_for(parts, log)(parts, world, on_round, log)
