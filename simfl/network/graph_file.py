"""Networks in files of graphs: GraphML, GEXF, GML, node-link JSON and networkx's lists of edges."""

import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError, amount
from simfl.core.storage.text_table import UNREADABLE, open_bytes
from simfl.network.cities import EARTH_RADIUS_KM, FIBRE_KM_PER_S
from simfl.network.link_values import GREAT_CIRCLE, Attributes, FileLink, LinkList, number, shown
from simfl.network.sites import SiteMap

if TYPE_CHECKING:
    import networkx

MAX_BYTES = 16 * 2**20

USUAL = Attributes()

ENDS = (("source", "target"), ("src", "dst"), ("from", "to"), ("node1", "node2"))
"""The keys of a JSON link's ends."""


def read_graph(
    path: Path, kind: str, key: str, directed: bool | None = None, attributes: Attributes = USUAL
) -> SiteMap:
    """The network in a file of a graph; nodes are known by their ids, in GML by their labels where these differ.

    Args:
        kind: "graphml", "gexf", "gml", "json" or "edgelist".
        directed: whether edges go one way; None = as the file says.

    Raises:
        ScenarioError: the file is broken, or declares entities (which such files never need).
    """
    data = _bytes(path, key)
    if kind in ("graphml", "gexf"):
        _refuse_document_types(data, path, key)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about types that are left out: values are read as numbers anyway
            graph = _parse(data, kind)
    except Exception as error:  # broken files make networkx raise almost anything
        what = " ".join(str(error).split())[:200] or type(error).__name__
        line = f":{error.position[0]}" if hasattr(error, "position") else ""
        raise ScenarioError(key, f"{path.name}{line}: no readable {kind} file: {what}") from None
    links, notes = _links(graph, path, key, attributes)
    names = list(dict.fromkeys(str(name) for link in links for name in link.values))
    edges, said = LinkList(links, names, attributes, f"{path.name}: ", key).edges()
    ends = {end for edge in edges for end in edge[:2]}
    if alone := [str(node) for node in graph if str(node) not in ends]:
        notes.append(f"{amount(len(alone), 'node')} without links left out: {shown(alone)}")
    one_way = graph.is_directed() if directed is None else directed
    return SiteMap(edges, one_way, notes=(*notes, *said), labels=_labels(graph))


def _bytes(path: Path, key: str) -> bytes:
    try:
        with open_bytes(path) as file:
            data = file.read(MAX_BYTES + 1)
    except UNREADABLE as error:
        raise ScenarioError(key, f"{path.name}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise ScenarioError(key, f"{path.name}: larger than {MAX_BYTES} bytes")
    return data


def _parse(data: bytes, kind: str) -> "networkx.Graph[Any]":
    import networkx

    if kind == "graphml":
        return networkx.read_graphml(BytesIO(data))
    if kind == "gexf":
        return networkx.read_gexf(BytesIO(data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if kind == "edgelist":
        lines = [line for line in text.splitlines() if not line.startswith("#") and line.strip()]
        values = True if all("{" in line for line in lines) else (("weight", float),)
        return networkx.parse_edgelist(lines, data=values, create_using=networkx.MultiGraph)
    return _from_json(json.loads(text)) if kind == "json" else _from_gml(text)


def _from_gml(text: str) -> "networkx.Graph[Any]":
    """Parallel links are there though the file does not say so; labels become names only if they differ."""
    import networkx

    graph = networkx.parse_gml(re.sub(r"(?m)^(\s*graph)\s*\[", r"\1 [ multigraph 1 ", text, count=1), label="id")
    labels = {node: label for node, label in graph.nodes(data="label") if label not in (None, "")}
    if len(labels) == len(graph) == len({str(label) for label in labels.values()}):
        return networkx.relabel_nodes(graph, labels)
    return graph


def _from_json(data: Any) -> "networkx.Graph[Any]":
    """
    Raises:
        ValueError: the data are no nodes and links.
    """
    import networkx

    links = next((data[name] for name in ("links", "edges") if isinstance(data, dict) and name in data), None)
    if not isinstance(links, list):
        raise ValueError("it has neither 'links' nor 'edges'")
    graph = (networkx.MultiDiGraph if data.get("directed") is True else networkx.MultiGraph)()
    for node in data.get("nodes", ()):
        values = dict(node) if isinstance(node, dict) else {"id": node}
        name = next((values.pop(key) for key in ("id", "name", "label") if key in values), None)
        if not isinstance(name, (str, int)):
            raise ValueError(f"node {str(node)[:40]} has no id")
        graph.add_node(str(name), **{str(key): value for key, value in values.items()})
    listed = set(graph)
    for i, link in enumerate(links):
        ends = next((pair for pair in ENDS if isinstance(link, dict) and set(pair) <= link.keys()), None)
        if ends is None:
            raise ValueError(f"link {i} has no source and target")
        src, dst = (str(link[end]) for end in ends)
        if listed and not {src, dst} <= listed:
            raise ValueError(f"link {i} is from '{src}' to '{dst}', which are not both ids of nodes")
        graph.add_edge(src, dst, None, **{str(key): it for key, it in link.items() if key not in (*ends, "key")})
    return graph


def _links(
    graph: "networkx.Graph[Any]", path: Path, key: str, attributes: Attributes
) -> tuple[list[FileLink], list[str]]:
    """The links with their values, with latencies by great circle if these are wanted."""
    notes: list[str] = []
    listed = [(str(src), str(dst), {k: v for k, v in values.items() if v not in (None, "")})
              for src, dst, values in graph.edges(data=True)]  # fmt: skip
    if attributes.latency == GREAT_CIRCLE:
        pairs = [link[:2] for link in listed]
        places = Coordinates.of({str(node): values for node, values in graph.nodes(data=True)}, pairs, path.name, key)
        notes += places.notes(attributes.path_factor)
        listed = [
            (src, dst, values | {GREAT_CIRCLE: places.latency_s(src, dst, attributes.path_factor)})
            for src, dst, values in listed
            if src in places.at and dst in places.at
        ]
    elif any(all(coordinate_names(values)) for _, values in graph.nodes(data=True)):
        notes.append("coordinates of nodes not used, as network.latency is not great_circle")
    return [FileLink(f"{path.name}: ", *link) for link in listed], notes


def _labels(graph: "networkx.Graph[Any]") -> dict[str, str]:
    """The nodes by their labels, where these are no names of nodes and differ."""
    labels = [(str(label), str(node)) for node, label in graph.nodes(data="label") if label not in (None, "")]
    times = Counter(label for label, _ in labels)
    return {label: node for label, node in labels if times[label] == 1}


def _refuse_document_types(data: bytes, path: Path, key: str) -> None:
    """Looks with the parser itself, which knows the file's encoding; what else is wrong shows when the file is read."""

    def refuse(*about: object) -> None:
        raise ScenarioError(key, f"{path.name}: document types and entities are refused")

    parser = ParserCreate()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    with suppress(ExpatError, LookupError, ValueError):
        parser.Parse(data, True)


# -- Latencies from the coordinates of nodes -------------------------------------------------------------------

LATITUDE, LONGITUDE = ("latitude", "lat"), ("longitude", "lon", "lng", "long")


class Coordinates(NamedTuple):
    """Where nodes are.

    Attributes:
        at: unit vectors from the centre of the earth, float64 (3,), by node.
        unlocated: nodes without coordinates, which stand at the middle of their neighbours.
        nowhere: nodes without coordinates that no link connects with any that has them.
    """

    at: Mapping[str, NDArray[np.float64]]
    unlocated: Sequence[str]
    nowhere: Sequence[str]

    @classmethod
    def of(
        cls, nodes: Mapping[str, Mapping[str, Any]], links: Sequence[tuple[str, str]], file: str, key: str
    ) -> "Coordinates":
        """
        Args:
            nodes: the values of each node.
            links: their ends.
            file: for messages.

        Raises:
            ScenarioError: no node has coordinates, or some are impossible.
        """
        at = {node: where for node, values in nodes.items() if (where := _vector(node, values, file, key)) is not None}
        if not at:
            names = sorted({name for values in nodes.values() for name in values})
            has = f"nodes have {shown(names)}" if names else "nodes have no values"
            raise ScenarioError("latency", f"{file}: no node has Latitude and Longitude (or lat and lon); {has}")
        neighbours: dict[str, set[str]] = {node: set() for node in nodes}
        for src, dst in links:
            neighbours[src].add(dst)
            neighbours[dst].add(src)
        missing = [node for node in nodes if node not in at]
        left = missing
        while step := {
            node: near for node in left if (near := [at[it] for it in sorted(neighbours[node]) if it in at])
        }:
            for node, near in step.items():
                middle = np.sum(near, axis=0)
                at[node] = middle / length if (length := math.hypot(*middle)) > 1e-9 else near[0]
            left = [node for node in left if node not in step]
        return cls(at, [node for node in missing if node in at], left)

    def latency_s(self, one: str, other: str, path_factor: float) -> float:
        """Seconds one way: ``path_factor`` times the great circle, at the speed of light in fibre."""
        chord = math.dist(self.at[one], self.at[other])
        return path_factor * 2 * EARTH_RADIUS_KM * math.asin(min(chord / 2, 1.0)) / FIBRE_KM_PER_S

    def notes(self, path_factor: float) -> list[str]:
        """In words, what was read and assumed."""
        notes = [f"latency by great circle: {path_factor:g} times the distance at {FIBRE_KM_PER_S:,.0f} km/s"]
        for nodes, what in (
            (self.unlocated, "at the middle of their neighbours"),
            (self.nowhere, "left out with their links, as no neighbour has any"),
        ):
            if nodes:
                notes.append(f"{amount(len(nodes), 'node')} without coordinates {what}: {shown(nodes)}")
        return notes


def coordinate_names(values: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The names of a node's latitude and longitude; None where it has none."""
    names = {name.lower(): name for name, value in values.items() if value not in (None, "")}
    north, east = (next((names[each] for each in wanted if each in names), None) for wanted in (LATITUDE, LONGITUDE))
    return north, east


def _vector(node: str, values: Mapping[str, Any], file: str, key: str) -> NDArray[np.float64] | None:
    north, east = coordinate_names(values)
    if north is None or east is None:
        return None
    where = f"{file}: node '{node}': "
    latitude = math.radians(number(values[north], north, where, key, -90, 90))
    longitude = math.radians(number(values[east], east, where, key, -180, 360))
    level = math.cos(latitude)
    return np.array([level * math.cos(longitude), level * math.sin(longitude), math.sin(latitude)])
