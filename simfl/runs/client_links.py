"""The links of a run: those of its network, behind the lines that the device profiles give the clients."""

from typing import cast

import numpy as np

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.devices.profiles import LINE, client_profiles
from simfl.network.base import Links
from simfl.network.links import AccessLines, PathLinks
from simfl.scenario import Scenario


def build_links(scenario: Scenario, streams: Streams) -> Links:
    """Builds the network and puts the clients' own lines before it.

    Raises:
        ScenarioError: the network or the profiles cannot be built, or the network's links take no lines before them.
    """
    links: Links = scenario.network.build(scenario, streams)
    profiles = client_profiles(scenario, streams)
    if not set(LINE) & profiles.keys():
        return links
    if not isinstance(links, PathLinks):
        name = scenario.network.name
        raise ScenarioError(
            "devices.profiles",
            f"network '{name}' of a plugin has delays of its own; take {', '.join(LINE)} out of the file",
        )
    nothing = np.zeros(scenario.clients)
    down, up = (1 / profiles[name] if name in profiles else nothing for name in ("down_bytes_per_s", "up_bytes_per_s"))
    lines = AccessLines(profiles.get("latency_s", nothing), down, up)
    return cast(Links, lines.before(links))
