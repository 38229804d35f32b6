"""What a topology is, and the registry of its family."""

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.types import Arrays


class EdgeNode(Protocol):
    """The place of an edge on the clock. What it waits for it asks with ``yield``, and gets the value.

    Attributes:
        edge: its number, from 0.
        clients: its own, int32 (m,), ascending.
        rng: draws of its own, for this model.
        memory: arrays of numbers by name that last from one model to the next, and are stored with the run.
    """

    edge: int
    clients: NDArray[np.int32]
    rng: np.random.Generator
    memory: Arrays

    @property
    def now(self) -> float:
        """Simulated time, seconds."""

    def aggregate(self, times: int = 1) -> Any:
        """One aggregation with its clients, or several, as the scenario's selection, training, secagg and privacy say;
        those whose updates are in any, int32 (n,), ascending. It takes its simulated time.
        """

    def sleep(self, seconds: float) -> Any:
        """None, after so many seconds."""


class Topology(Plugin, Protocol):
    """The scenario's choice of who talks with whom; ``network`` says how fast.

    Attributes:
        server: name of the server that runs it; None = the one of the training rule.
        aggregator: what an observer that is neither the server nor a client is called, as in "edge/3".
        has_root: whether one server sees something of every round; else the worst observer stands in rounds.csv.
        selects: who asks the policy: each edge among its own clients, or the root among all.
        noise: who adds the noise of a server: each edge to its sums, or the root to the average.
        edge_rounds: aggregations of an edge between two exchanges of its model.
        cloud_staleness: a model so many versions old counts (1 + age)^-staleness in a step of a root with a buffer.
        cloud_buffer: edges' models in a step of the root; None = of all.
        premise: what numbers of a run take for granted of its aggregators.
        own_models: clients have models of their own, which they exchange with neighbours.
        columns: of rounds.csv that its server fills.
    """

    server: str | None = None
    aggregator: str = "edge"
    has_root: bool = False
    own_models: bool = False
    cloud_buffer: int | None = None
    selects: Literal["edge", "cloud"] = "edge"
    noise: Literal["edge", "cloud"] = "edge"
    edge_rounds: int = 1
    cloud_staleness: float = 0.0
    premise: str = ""
    columns: tuple[Column, ...] = ()

    @abstractmethod
    def groups(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        """The clients of each edge, ascending; none where there are no edges."""

    def seconds(self, size_bytes: int) -> float:
        """Of a message between aggregators."""
        return 0.0

    def run_edge(self, edge: EdgeNode) -> Generator[Any, Any, None]:
        """What an edge does with a model of the root until it sends its own: it aggregates once or more often, by
        default ``edge_rounds`` times (Liu et al. 2020, Algorithm 1). One that fails, never ends, or does not aggregate
        ends the run with a line.
        """
        yield edge.aggregate(self.edge_rounds)

    @property
    def aggregates_once(self) -> bool:
        """Whether an edge is known to aggregate once between two exchanges of its model."""
        return self.edge_rounds == 1 and not self.own_edges

    @property
    def own_edges(self) -> bool:
        """Whether its class says itself what an edge does, so that nobody knows how often one aggregates."""
        return type(self).run_edge is not Topology.run_edge

    def neighbours(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        """Those with whom each client, as an aggregator, exchanges updates, ascending; none where clients are none."""
        return ()


TOPOLOGIES = Registry[Topology](
    "topology",
    promises=("has_root",),
    derived=("aggregates_once", "own_edges"),
    protocol=Topology,
    modules=modules_of("simfl.topology", "gossip", base="star", tree="servers tree"),
)


@TOPOLOGIES("star")
@dataclass(frozen=True)
class StarTopology(Topology):
    """Clients talk with one server; or all with all, where the training rule has none."""

    def groups(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        return ()
