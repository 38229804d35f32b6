"""A network from a file: a graph, a list of links, or a square table of latencies."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError, SimflError, amount
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.storage.text_table import OPENERS
from simfl.core.types import Name
from simfl.network.base import NETWORKS
from simfl.network.csv_file import read_csv
from simfl.network.graph_file import read_graph
from simfl.network.link_values import Attributes, latency_unit, shown
from simfl.network.links import Jitter, Loss, PathLinks
from simfl.network.shared_edges import (
    NodePlaces,
    ServerField,
    SharedField,
    place_of,
    refuse_wrong_edges,
    share_edges,
    share_server,
    shares_nothing,
)
from simfl.network.site_table import SiteTable
from simfl.network.sites import NodePlacement, SiteMap, connect, members, node_problems

KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".dat": "csv", ".graphml": "graphml", ".gexf": "gexf",
         ".gml": "gml", ".json": "json", ".edgelist": "edgelist", ".edges": "edgelist"}  # fmt: skip
"""How a file is written, by the end of its name, behind which .gz, .bz2 or .xz may stand."""


Unit = Literal["s", "ms", "us", "rtt_s", "rtt_ms", "rtt_us"]


@NETWORKS("file")
@dataclass(frozen=True)
class NetworkFile:
    """A network from a file: GraphML, GEXF, GML, node-link JSON, or a text table (a list of links, or a square one).

    Links have a latency and perhaps a bandwidth; a name such as ``latency_ms`` or ``capacity_mbps`` says the unit.
    Nodes without clients are routers. `simfl validate` says what was read, and what was not used.
    """

    path: Annotated[DataPath, Field(description="the file, beside the scenario file or in the data folder")]
    server: Annotated[ServerField, Field(description="the server's node, or a mapping: its name, and its own link")]
    clients: Annotated[
        tuple[Name, ...] | Name | None,
        Field(description="nodes of the clients, in the clients' order, or a pattern such as host*; "
              "null = all nodes but the server's that any link connects with it"),
    ] = None  # fmt: skip
    placement: NodePlacement = "one_each"
    directed: Annotated[
        bool | None,
        Field(description="whether links go one way; null = as the file says (CSV: both ways unless both are listed)"),
    ] = None
    latency: Annotated[
        Name | None,
        Field(description="attribute or column that holds a link's latency; great_circle = from the nodes' "
              "coordinates; null = the one whose name says its unit (latency_s, rtt_ms, ...)"),
    ] = None  # fmt: skip
    unit: Annotated[
        Unit | None,
        Field(description="of that attribute or of a square table's cells: one way, or there and back (rtt_); "
              "null = as the name says, else s, in square tables rtt_ms"),
    ] = None  # fmt: skip
    bandwidth: Annotated[
        Name | None,
        Field(description="attribute or column that holds a link's bandwidth; unlimited = none does; null = the one "
              "whose name says its unit (bandwidth_bytes_per_s, ...), if any"),
    ] = None  # fmt: skip
    jitter_s: Jitter = None
    loss: Loss = field(default=0.0, metadata=SINCE_LATER)
    shared: SharedField = field(default_factory=dict, metadata=SINCE_LATER)
    one_way: Annotated[
        bool | None, Field(description="whether latencies are one way; null = as the unit or the name says")
    ] = field(default=None, metadata=SINCE_LATER)
    bandwidth_unit: Annotated[
        Literal["byte/s", "kbyte/s", "Mbyte/s", "bit/s", "kbit/s", "Mbit/s", "Gbit/s"] | None,
        Field(description="of the bandwidth that is named; null = as the name says, else byte/s"),
    ] = field(default=None, metadata=SINCE_LATER)
    path_factor: Annotated[
        float, Field(ge=1, le=100, description="length of cables over great-circle distance, for great_circle")
    ] = field(default=1.6, metadata=SINCE_LATER)

    example = {"path": "links.csv", "server": "s", "placement": "random"}

    @property
    def independent(self) -> bool:
        """No message waits for another, as no link is shared."""
        return shares_nothing(self.server, self.shared)

    def resolve(self, setting: ScenarioView) -> "NetworkFile":
        """Writes down the unit that is meant where none is given."""
        if self.unit is not None:
            return self
        unit = latency_unit(self.latency or "") or "s" if self.latency is not None else "s"
        if self._kind == "csv" and self.latency is None:
            with suppress(ScenarioError, MissingError):  # which are told when the network is built
                if isinstance(self._read(setting), SiteTable):
                    unit = "ms" if self.one_way else "rtt_ms"
        return replace(self, unit=cast(Unit, unit))

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self._kind is not None:
            return []
        return [("path", f"'{self.path}' is of no known kind; its name must end in {', '.join(KINDS)}")]

    def cautions(self, setting: ScenarioView) -> list[str]:
        try:
            topology = self._read(setting)
            nodes = topology.nodes
            chosen = set(self._client_nodes(topology))
        except SimflError:  # which is told when the network is built
            return []
        listed = self.clients if isinstance(self.clients, tuple) else self._client_nodes(topology)
        if node_problems(nodes, place_of(self.server), listed, self.placement, setting.clients):
            return []
        at = place_of(self.server)
        routers = [name for name in nodes if name not in chosen and name != at]
        ends = f"{amount(len(nodes), 'node')}: the server's, {len(chosen - {at}):,} for clients"
        notes = [f"{ends}, {len(routers):,} without clients{f' ({shown(routers)})' if routers else ''}"]
        if isinstance(topology, SiteMap):
            notes.insert(0, amount(len(topology.edges), "link"))
        return [f"{self.path}: {'; '.join([*notes, *topology.notes])}"]

    def build(self, setting: ScenarioView, streams: Streams) -> PathLinks:
        topology = self._read(setting)
        nodes, at_server = topology.nodes, place_of(self.server)
        if at_server not in nodes and at_server in topology.labels:
            node = topology.labels[at_server]
            raise ScenarioError("server", f"there is no node '{at_server}'; the node of that label is '{node}'")
        listed = self.clients if isinstance(self.clients, tuple) else self._client_nodes(topology)
        for key, message in node_problems(nodes, at_server, listed, self.placement, setting.clients):
            raise ScenarioError("path" if key == "edges" else key, message)
        refuse_wrong_edges(self.shared, nodes, topology.linked if self.shared else None)
        rng = streams("placement")
        at, server = members(nodes, at_server, listed, self.placement, setting.clients, rng)
        sites = topology.sites()
        links = share_server(connect(sites, list(nodes), at, server, streams, self.jitter_s), self.server)
        return share_edges(links, self.shared, NodePlaces(sites, nodes, at, server))

    def _client_nodes(self, topology: SiteMap | SiteTable) -> tuple[str, ...]:
        """The nodes that may hold clients.

        Raises:
            ScenarioError: no node fits the pattern.
        """
        nodes, server = topology.nodes, place_of(self.server)
        if isinstance(self.clients, tuple):
            return self.clients
        if self.clients is not None:
            if fit := tuple(name for name in nodes if fnmatchcase(name, self.clients) and name != server):
                return fit
            raise ScenarioError("clients", f"no node fits '{self.clients}'; there are {shown(list(nodes))}")
        if server not in nodes:
            return tuple(nodes)
        near = topology.sites().near(nodes[server])
        return tuple(name for name, i in nodes.items() if near[i] and name != server)

    @property
    def _kind(self) -> str | None:
        """How the file is written; None where its name does not say."""
        name = self.path.lower()
        for packed in OPENERS:
            name = name.removesuffix(packed)
        return KINDS.get(Path(name).suffix)

    def _read(self, setting: ScenarioView) -> SiteMap | SiteTable:
        path = setting.file(self.path)
        attributes = Attributes(
            self.latency, self.unit, self.one_way, self.bandwidth, self.bandwidth_unit, self.path_factor
        )
        try:
            status = path.stat()
        except OSError as error:
            raise ScenarioError("path", f"{path.name}: {error.strerror or error}") from None
        return _topology(path, self._kind or "", self.directed, attributes, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _topology(path: Path, kind: str, directed: bool | None, attributes: Attributes, *_: int) -> SiteMap | SiteTable:
    """The network in a file; read once while it does not change."""
    if kind == "csv":
        return read_csv(path, "path", bool(directed), attributes)
    return read_graph(path, kind, "path", directed, attributes)
