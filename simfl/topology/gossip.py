"""Clients that exchange models with their neighbours in a graph.

References: X. Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017,
Algorithm 1; who sends to whom: A. Demers et al., "Epidemic algorithms for replicated database maintenance", PODC 1987,
section 1.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import amount
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.topology.base import TOPOLOGIES, Topology


@TOPOLOGIES("gossip")
@dataclass(frozen=True, kw_only=True)
class GossipTopology(Topology):
    """Clients have models of their own. Who was selected trains its own, and averages it with those of the neighbours
    who were; so does whoever hears from some, and who hears from nobody keeps its own."""

    graph: Annotated[
        Literal["ring", "complete", "regular"], Field(description="who are neighbours; regular: a graph that is drawn")
    ] = "ring"
    degree: Annotated[int, Field(ge=1, le=10**5, description="neighbours of each client, of a regular graph")] = 4
    exchange: Annotated[
        Literal["push", "pull", "push_pull"],
        Field(description="who has trained sends to its neighbours; or every client asks its own; or both"),
    ] = "push"
    peers: Annotated[
        int | None, Field(ge=1, le=10**5, description="neighbours drawn anew every round by each; null = all of them")
    ] = None

    has_root = False
    own_models = True
    aggregator = "client"

    def groups(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        return ()

    def neighbours(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        everybody = np.arange(clients)
        if self.graph == "complete":
            return tuple(np.delete(everybody, client).astype(np.int32) for client in range(clients))
        if self.graph == "ring":
            return tuple(np.unique([(i - 1) % clients, (i + 1) % clients]).astype(np.int32) for i in range(clients))
        import networkx

        seed = int(streams("topology/graph").integers(2**31))
        graph = networkx.random_regular_graph(self.degree, clients, seed=seed)
        return tuple(np.array(sorted(graph[client]), dtype=np.int32) for client in range(clients))

    def draw_peers(
        self, neighbours: tuple[NDArray[np.int32], ...], round: int, streams: Streams
    ) -> tuple[NDArray[np.int32], ...]:
        """Those of its neighbours that each client addresses in a round, ascending."""
        if self.peers is None:
            return neighbours
        rng, most = streams("topology/peers", round), self.peers
        return tuple(np.sort(rng.permutation(mine)[:most]) for mine in neighbours)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """The graph exists, and the training rule has clients that aggregate."""
        problems, n = [], setting.clients
        if n < 3 and self.graph == "ring":
            problems.append(("graph", f"is a ring, but there is {amount(n, 'client')}; use complete"))
        if self.graph == "regular" and (self.degree >= n or self.degree * n % 2):
            why = f"no graph of {amount(n, 'client')} has {self.degree} neighbours for each"
            problems.append(("degree", f"{why}; use an even number below {n}"))
        if not setting.training.own_models or setting.training.server != "gossip":
            why = f"has no server, and training '{setting.training.name}' is not for clients with models of their own"
            problems.append(("", f"{why}; use training: gossip"))
        return problems
