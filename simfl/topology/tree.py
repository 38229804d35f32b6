"""Edges between clients and a cloud, and servers beside one another: each aggregates the updates of its own clients.

Reference: L. Liu, J. Zhang, S. H. Song, K. B. Letaief, "Client-edge-cloud hierarchical federated learning", ICC 2020,
Algorithm 1; several servers: V. Mugunthan et al., PrivacyFL, CIKM 2020, section 5.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import EDGE_BYTES
from simfl.core.errors import amount
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView, has_buffer
from simfl.topology.base import TOPOLOGIES, Topology

RANGES = r"^\d{1,9}(-\d{1,9})?(, ?\d{1,9}(-\d{1,9})?)*$"
"""Numbers of clients and ranges of them."""


@dataclass(frozen=True, kw_only=True)
class _Groups(Topology):
    """Every client belongs to one of several aggregators."""

    edge_rounds: Annotated[
        int, Field(ge=1, le=10**6, description="aggregations of an edge between two exchanges of its model")
    ] = 1
    latency_s: Annotated[float, Field(ge=0, le=1e9, description="seconds of a message between aggregators")] = 0.0
    bytes_per_s: Annotated[
        float | None, Field(gt=0, le=1e15, description="of each way between aggregators; null = unlimited")
    ] = None

    server = "tree"
    columns = EDGE_BYTES

    def seconds(self, size_bytes: int) -> float:
        """Of one message between aggregators."""
        return self.latency_s + (size_bytes / self.bytes_per_s if self.bytes_per_s else 0.0)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Every client belongs to one edge, and what a star has alone is left out."""
        groups = self.groups(setting.clients, Streams(setting.seed))
        places = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int32)
        problems = []
        if not np.array_equal(np.sort(places), np.arange(setting.clients)):
            why = f"each of the {amount(setting.clients, 'client')} belongs to exactly one; list 0 to "
            problems.append((self.key, f"{why}{setting.clients - 1}, each once"))
        if any(not len(group) for group in groups):
            problems.append((self.key, f"one has no clients; use at most {setting.clients}"))
        if setting.attacks:
            problems.append(("", "is no star, and attacks observe one server; leave attacks out"))
        if setting.secagg.sums_units:
            problems.append(("", f"is no star, which secagg: {setting.secagg.name} needs; use another protocol"))
        if setting.training.many_aggregators:
            problems.append(("", f"is no star, which training '{setting.training.name}' has none of; use fedavg"))
        elif setting.training.server not in ("synchronous", "buffered"):
            why = f"is no star: server '{setting.training.server}', which the rule or its arrivals name, would not run"
            problems.append(("", f"{why}; leave topology out"))
        if not setting.training.algorithm.stateless and has_buffer(setting.training):
            why = f"with buffered edges, and {setting.training.algorithm.name} keeps states of clients; use fedavg"
            problems.append(("", why))
        return problems

    @property
    def key(self) -> str:
        """The key that lists the groups."""
        return "edges"


def _ranges(text: str) -> range | list[int]:
    ends = [part.split("-") for part in text.split(",")]
    return sorted(set(chain.from_iterable(range(int(each[0]), int(each[-1]) + 1) for each in ends)))


def _groups(said: int | tuple[str, ...], clients: int) -> tuple[NDArray[np.int32], ...]:
    """Groups of neighbouring numbers, as equal as can be; or those that are listed."""
    if isinstance(said, int):
        return tuple(np.array_split(np.arange(clients, dtype=np.int32), said))
    return tuple(np.array(_ranges(each), dtype=np.int32) for each in said)


Grouping = (
    Annotated[int, Field(ge=1, le=10**6)]
    | Annotated[
        tuple[Annotated[str, Field(pattern=RANGES, max_length=10**5)], ...], Field(min_length=1, max_length=10**5)
    ]
)


@TOPOLOGIES("tree")
@dataclass(frozen=True, kw_only=True)
class Tree(_Groups):
    """Clients talk with the edge that they belong to, and edges with a cloud, which averages the edges' models.

    ``selection``, ``training``, ``secagg`` and ``privacy`` say what each edge does with its own clients, of which
    ``selection.k`` counts. The cloud waits for all edges or, with a buffer, takes a step whenever so many models have
    come.
    """

    edges: Annotated[Grouping, Field(description='how many; or of each its clients, as in "0-9, 12"')]
    cloud_buffer: Annotated[
        int | None, Field(ge=1, le=10**6, description="models in a step of the cloud; null = it waits for all edges")
    ] = None
    cloud_staleness: Annotated[
        float,
        Field(ge=0, le=100, description="with a buffer a model so many versions old counts (1 + age)^-cloud_staleness"),
    ] = 0.5

    selects: Annotated[
        Literal["edge", "cloud"],
        Field(description="whose policy it is: each edge selects among its own clients, or the cloud among all"),
    ] = "edge"

    noise: Annotated[
        Literal["edge", "cloud"],
        Field(description="who adds a server's noise (central_gaussian): each edge to its sums, or the cloud to all"),
    ] = "edge"

    has_root = True
    premise = "edges tell the cloud nothing but their models"
    example = {"edges": 2}

    def groups(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        return _groups(self.edges, clients)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """A cloud with a buffer has edges that wait for it."""
        problems = super().check(setting)
        if self.cloud_buffer is not None and has_buffer(setting.training):
            why = f"training '{setting.training.name}' has edges with buffers; use fedavg, or leave it out"
            problems.append(("cloud_buffer", why))
        if self.selects == "cloud":
            problems += [("selects", f"is cloud, {why}; use edge") for why in self._against_cloud(setting)]
        if self.noise == "cloud" and (self.cloud_buffer or not self.aggregates_once or has_buffer(setting.training)):
            why = "is cloud, but what is noised is one sum of each edge in every round; use edge_rounds: 1, no buffer"
            problems.append(("noise", why))
        count = len(self.groups(setting.clients, Streams(setting.seed)))
        if self.cloud_buffer is not None and self.cloud_buffer > count:
            problems.append(
                ("cloud_buffer", f"is {self.cloud_buffer}, but there are {amount(count, 'edge')}; use at most {count}")
            )
        return problems

    def _against_cloud(self, setting: ScenarioView) -> Iterator[str]:
        """What speaks against a policy of the cloud's."""
        if self.cloud_buffer is not None or has_buffer(setting.training):
            yield "but with buffers nobody waits for all edges"
        if setting.selection.receipts(setting.clients) is not None:
            yield "but clients confirm to one another what their edge has told them"
        if setting.selection.asks or setting.selection.reads:
            yield f"but selection '{setting.selection.name}' reads what clients tell their edge"


@TOPOLOGIES("servers")
@dataclass(frozen=True, kw_only=True)
class Servers(_Groups):
    """Several servers, each with its own clients, send one another their models, and each averages all of them."""

    servers: Annotated[Grouping, Field(description='how many; or of each its clients, as in "0-9, 12"')]

    aggregator = "server"
    has_root = False
    premise = "servers tell one another nothing but their models"
    example = {"servers": 2}

    def groups(self, clients: int, streams: Streams) -> tuple[NDArray[np.int32], ...]:
        return _groups(self.servers, clients)

    @property
    def key(self) -> str:
        return "servers"
