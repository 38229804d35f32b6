"""What the server of a plugin says of itself; simfl's own keep both promises."""

from typing import Any

from simfl.core.registration.family_index import FAMILIES
from simfl.core.scenario_view import ScenarioView


def silent_server(setting: ScenarioView) -> str:
    """The server of a plugin that does not say that it counts every message and sum; empty where there is none."""
    server = _of_plugin(setting)
    counts = server is None or server.counts_unsummed
    return "" if counts else f"messages that nobody counts (server: {setting.training.server})"


def follows_policy(setting: ScenarioView) -> bool:
    """Whether whoever works has been selected by the policy."""
    server = _of_plugin(setting)
    return server is None or bool(server.follows_policy)


def _of_plugin(setting: ScenarioView) -> Any:
    """The class of a plugin's server; None = it is simfl's own."""
    name: Any = setting.training.server
    server: Any = FAMILIES.imported.get("server", {name: None}).get(name)
    return None if server is None or server.__module__.startswith("simfl.") else server
