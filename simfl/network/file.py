"""A network from a file: GraphML, GEXF, a CSV list of links, or a square table of round-trip times."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.types import Name
from simfl.network.base import NETWORKS
from simfl.network.csv_file import Attributes, read_csv, read_xml
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
from simfl.network.sites import Clients, NodePlacement, SiteMap, connect, members, node_problems

SUFFIXES = (".csv", ".graphml", ".gexf")


@NETWORKS("file")
@dataclass(frozen=True)
class NetworkFile:
    """A network from a file: .graphml, .gexf, or .csv (columns src,dst,rtt_ms, or a square table in ms)."""

    path: Annotated[DataPath, Field(description="the file, beside the scenario file or in the data folder")]
    server: Annotated[ServerField, Field(description="the server's node, or a mapping: its name, and its own link")]
    clients: Clients = None
    placement: NodePlacement = "one_each"
    directed: Annotated[
        bool | None,
        Field(description="whether links go one way; null = as the file says (CSV: both ways unless both are listed)"),
    ] = None
    latency: Annotated[
        Name | None, Field(description="attribute or column that holds a link's latency; null = latency_s or rtt_ms")
    ] = None
    unit: Annotated[
        Literal["s", "ms", "rtt_ms"],
        Field(description="of that attribute: one way in s or ms, or there and back in ms"),
    ] = "s"
    bandwidth: Annotated[
        Name | None,
        Field(description="attribute or column that holds bytes per second; null = bandwidth_bytes_per_s, if any"),
    ] = None
    jitter_s: Jitter = None
    loss: Loss = field(default=0.0, metadata=SINCE_LATER)
    shared: SharedField = field(default_factory=dict, metadata=SINCE_LATER)

    example = {"path": "links.csv", "server": "s", "placement": "random"}

    @property
    def independent(self) -> bool:
        """No message waits for another, as no link is shared."""
        return shares_nothing(self.server, self.shared)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = []
        if self.unit != "s" and self.latency is None:
            problems.append(("unit", "is the unit of what latency names; name it"))
        if self.path.lower().endswith(SUFFIXES):
            return problems
        return [*problems, ("path", f"'{self.path}' is of no known kind; its name must end in {', '.join(SUFFIXES)}")]

    def build(self, setting: ScenarioView, streams: Streams) -> PathLinks:
        topology = self._read(setting)
        nodes = topology.nodes
        for key, message in node_problems(nodes, place_of(self.server), self.clients, self.placement, setting.clients):
            raise ScenarioError("path" if key == "edges" else key, message)
        refuse_wrong_edges(self.shared, nodes, {edge[:2] for edge in topology.edges} if self.shared else None)
        rng = streams("placement")
        at, server = members(nodes, place_of(self.server), self.clients, self.placement, setting.clients, rng)
        sites = topology.sites()
        links = share_server(connect(sites, list(nodes), at, server, streams, self.jitter_s), self.server)
        return share_edges(links, self.shared, NodePlaces(sites, nodes, at, server))

    def _read(self, setting: ScenarioView) -> SiteMap:
        path = setting.file(self.path)
        attributes = Attributes(self.latency, self.unit, self.bandwidth)
        if path.suffix.lower() == ".csv":
            return read_csv(path, "path", bool(self.directed), attributes)
        return read_xml(path, "path", self.directed, attributes)
