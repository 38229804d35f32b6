"""The server and its clients on the world's clock.

A client is a row in arrays until a model reaches it. The world decides when an update arrives and whether it
does; what it is gets computed later, in one batch, for those that count.
"""

from collections.abc import Callable
from typing import Any

from simfl.agents.buffered import BufferedServer
from simfl.agents.drawn import DrawnServer
from simfl.agents.parts import Parts, Round
from simfl.agents.synchronous import SynchronousServer
from simfl.world import World

__all__ = ["BufferedServer", "DrawnServer", "Parts", "Round", "Server", "SynchronousServer", "server"]

Server = SynchronousServer | BufferedServer | DrawnServer

ASYNCHRONOUS: dict[str, type[Server]] = {"clock": BufferedServer, "uniform_staleness": DrawnServer}
"""The server that plays each kind of arrivals."""


def server(
    parts: Parts, world: World, on_round: Callable[[Round], None], log: Callable[[dict[str, Any]], None] | None = None
) -> Server:
    """The server agent that the scenario's rule asks for."""
    arrivals = getattr(parts.rule, "arrivals", None)
    kind = SynchronousServer if arrivals is None else ASYNCHRONOUS[arrivals.name]
    return kind(parts, world, on_round, log)
