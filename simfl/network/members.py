"""Who stands where on a graph: the server's node and the clients' nodes, checked and placed."""

from collections.abc import Collection, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import suggestion
from simfl.core.types import Name
from simfl.core.wording import amount, there_are
from simfl.network.sites import Placement, place

Clients = Annotated[
    tuple[Name, ...] | None,
    Field(min_length=1, description="nodes of the clients, in the clients' order; null = all nodes but the server's"),
]

NodePlacement = Annotated[
    Placement,
    Field(description="one_each: one client a node; cycle: round the nodes again and again; random: any node"),
]

MAX_PROBLEMS = 20


def node_problems(
    nodes: Collection[str], server: str, clients: Sequence[str] | None, placement: str, number: int
) -> list[tuple[str, str]]:
    """What is wrong with the choice of nodes, as (field, message).

    Args:
        nodes: all nodes of the graph, quick to look up.
        clients: the clients' nodes, or None for all the others.
        number: clients of the scenario.
    """
    problems = []
    if server not in nodes:
        problems.append(("server", f"there is no node '{server}'{suggestion(server, nodes)}"))
    listed: set[str] = set()
    for i, name in enumerate(clients or ()):
        if len(problems) >= MAX_PROBLEMS:
            break
        if name not in nodes:
            problems.append((f"clients.{i}", f"there is no node '{name}'{suggestion(name, nodes)}"))
        elif name in listed:
            problems.append((f"clients.{i}", f"node '{name}' is listed twice"))
        listed.add(name)
    chosen = len(nodes) - (server in nodes) if clients is None else len(clients)
    if chosen == 0:
        problems.append(("edges", "no node is left for the clients"))
    elif placement == "one_each" and chosen != number:
        remedy = f"set clients: {chosen} at the top, or placement: cycle or random"
        problems.append(("placement", f"{there_are(number, 'client')} for {amount(chosen, 'client node')}; {remedy}"))
    return problems


def members(
    nodes: dict[str, int], server: str, clients: Sequence[str] | None, how: str, number: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """The site of each client, shape (number,), and the server's."""
    chosen = [name for name in nodes if name != server] if clients is None else clients
    return place(number, [nodes[name] for name in chosen], how, rng), nodes[server]
