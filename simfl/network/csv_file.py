"""Networks in CSV files: lists of links, and square tables of round-trip times."""

import math
import warnings
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError, amount, suggestion
from simfl.core.storage.data_folder import read_bytes
from simfl.core.storage.text_table import MAX_CELL, csv_rows
from simfl.network.links import NARROWEST
from simfl.network.sites import MAX_EDGES, Edge, SiteMap

COLUMNS = ("src", "dst", "latency_s", "rtt_ms", "bandwidth_bytes_per_s")
MAX_VALUE = 1e12
HINT = "; network.latency names the value that holds latencies"
DIVISOR = {"s": 1, "ms": 1000, "rtt_ms": 2000}

LIST_FORM = "; a list of links has the columns src,dst,rtt_ms"

MAX_XML_BYTES = 16 * 2**20


class Attributes(NamedTuple):
    """Which values of a link mean what.

    Attributes:
        latency: the value that holds its latency; None = ``latency_s`` or ``rtt_ms``, whichever is there.
        unit: of that value: "s", "ms", or "rtt_ms" for there and back in milliseconds.
        bandwidth: the value that holds its bandwidth in bytes per second; None = ``bandwidth_bytes_per_s``, if any.
    """

    latency: str | None = None
    unit: str = "s"
    bandwidth: str | None = None


USUAL = Attributes()


def read_csv(path: Path, key: str, directed: bool = False, attributes: Attributes = USUAL) -> SiteMap:
    """The network in a CSV file, by its header.

    ``src,dst,rtt_ms`` (or ``latency_s``, optionally with ``bandwidth_bytes_per_s``) lists links, one a line. Any
    other header must be that of a square table of round-trip times in milliseconds (row: from, column: to; empty =
    not measured), whose pairs are measured from end to end.

    Raises:
        ScenarioError: the file is neither, or a line is broken; names the file and line.
    """
    rows = csv_rows(path, key)
    if rows and not {"src", "dst"}.isdisjoint(rows[0][1]):
        return SiteMap(_edges(rows, key, attributes), directed)
    names, rtt_ms = _table(rows, path, key)
    edges = [Edge(names[i], names[j], rtt_ms[i, j] / 2000) for i, j in np.argwhere(~np.isnan(rtt_ms)) if i != j]
    return SiteMap(tuple(edges), directed, end_to_end=True)


def _edges(rows: list[tuple[str, list[str]]], key: str, attributes: Attributes) -> tuple[Edge, ...]:
    (where, header), lines = rows[0], rows[1:]
    known = (*COLUMNS, attributes.latency, attributes.bandwidth)
    for name in header:
        if header.count(name) > 1:
            raise ScenarioError(key, f"{where}: two columns are named '{name}'")
        if name not in known and attributes == USUAL:
            raise ScenarioError(key, f"{where}: unknown column '{name}'{suggestion(name, COLUMNS) or HINT}")
    if len(lines) > MAX_EDGES:
        raise ScenarioError(key, f"{where}: {len(lines)} links are too many; at most {MAX_EDGES}")
    edges: list[Edge] = []
    seen: dict[tuple[str, str], str] = {}
    for where, cells in lines:
        if len(cells) != len(header):
            raise ScenarioError(key, f"{where}: {amount(len(cells), 'value')} for {amount(len(header), 'column')}")
        values = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
        link = edge(values, values.pop("src", ""), values.pop("dst", ""), f"{where}: ", key, attributes)
        if first := seen.get(link[:2]):
            raise ScenarioError(key, f"{where}: '{link.src}' to '{link.dst}' is already in {first}")
        seen[link[:2]] = where
        edges.append(link)
    return tuple(edges)


def edge(
    values: Mapping[str, object], src: str, dst: str, where: str, key: str, attributes: Attributes = USUAL
) -> Edge:
    """A link from named values as files have them: a latency, perhaps a bandwidth.

    Raises:
        ScenarioError: a value is missing or impossible; the message begins with ``where``.
    """
    if not src or not dst or src == dst:
        raise ScenarioError(key, f"{where}a link needs two different ends, not '{src}' and '{dst}'")
    if max(len(src), len(dst)) > MAX_CELL or not (src + dst).isprintable():
        raise ScenarioError(key, f"{where}a node's name has control characters or more than {MAX_CELL} characters")
    link = f"{where}link '{src}' to '{dst}'"
    name, unit = attributes.latency, attributes.unit
    if name is None:
        if ("latency_s" in values) == ("rtt_ms" in values):
            raise ScenarioError(key, f"{link} needs either latency_s or rtt_ms; {_has(values)}{HINT}")
        name, unit = ("latency_s", "s") if "latency_s" in values else ("rtt_ms", "rtt_ms")
    elif name not in values:
        raise ScenarioError(key, f"{link} has no '{name}'; {_has(values)}{suggestion(name, values)}")
    delay = _number(values[name], name, where, key)
    name, bandwidth = attributes.bandwidth or "bandwidth_bytes_per_s", None
    if name in values:
        bandwidth = _number(values[name], name, where, key)
        if bandwidth < NARROWEST:
            raise ScenarioError(key, f"{where}{name} must be at least {NARROWEST:g}")
    return Edge(src, dst, delay / DIVISOR[unit], bandwidth)


def _has(values: Mapping[str, object]) -> str:
    return f"it has {', '.join(str(name)[:40] for name in list(values)[:10])}" if values else "it has no values"


def read_table(path: Path, key: str) -> tuple[list[str], NDArray[np.float64]]:
    """A square table: the names, and float64 (names, names) in the order of the header; NaN where it is empty.

    Raises:
        ScenarioError: the file holds no such table; names the file and line.
    """
    return _table(csv_rows(path, key), path, key)


def _table(rows: list[tuple[str, list[str]]], path: Path, key: str) -> tuple[list[str], NDArray[np.float64]]:
    names = rows[0][1][1:] if rows else []
    if len(names) < 2 or len(set(names)) < len(names) or "" in names:
        form = "src,dst,rtt_ms (or latency_s), or a corner cell and then the names of a square table"
        raise ScenarioError(key, f"{rows[0][0] if rows else path.name}: wrong header; it must be {form}")
    if len(names) ** 2 > MAX_EDGES:
        raise ScenarioError(key, f"{rows[0][0]}: {len(names)} places are too many; at most {math.isqrt(MAX_EDGES)}")
    position = {name: i for i, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    done: set[str] = set()
    for where, (name, *cells) in rows[1:]:
        if name not in position:
            raise ScenarioError(
                key, f"{where}: row '{name}' is not in the header{suggestion(name, names) or LIST_FORM}"
            )
        if name in done:
            raise ScenarioError(key, f"{where}: row '{name}' comes twice")
        if len(cells) != len(names):
            raise ScenarioError(key, f"{where}: {amount(len(cells), 'value')} for {amount(len(names), 'column')}")
        done.add(name)
        for column, cell in enumerate(cells):
            if cell:
                table[position[name], column] = _number(cell, names[column], f"{where}: ", key)
    if missing := [name for name in names if name not in done]:
        raise ScenarioError(key, f"{path.name}: the table is not square: there is no row '{missing[0]}'")
    return names, table


def _number(value: Any, name: str, where: str, key: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= MAX_VALUE:
        raise ScenarioError(key, f"{where}{name} must be a number from 0 to {MAX_VALUE:g}, not {str(value)[:40]!r}")
    return number


def read_xml(path: Path, key: str, directed: bool | None = None, attributes: Attributes = USUAL) -> SiteMap:
    """The network in a GraphML or GEXF file, by its suffix; node ids are strings.

    Each edge carries ``latency_s`` or ``rtt_ms`` and perhaps ``bandwidth_bytes_per_s``, or what ``attributes`` names;
    other values are ignored.

    Args:
        directed: whether edges go one way; None = as the file says.

    Raises:
        ScenarioError: the file is broken, or declares entities (which such files never need).
    """
    import networkx

    data = read_bytes(path, key, MAX_XML_BYTES)
    _refuse_document_types(data, path, key)
    read = networkx.read_graphml if path.suffix.lower() == ".graphml" else networkx.read_gexf
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about types that are left out: values are read as numbers anyway
            graph = read(BytesIO(data))
    except Exception as error:  # broken files make networkx raise almost anything
        what = " ".join(str(error).split())[:200] or type(error).__name__
        line = f":{error.position[0]}" if hasattr(error, "position") else ""
        raise ScenarioError(key, f"{path.name}{line}: no readable {path.suffix[1:]} file: {what}") from None
    edges, seen = [], set()
    for src, dst, values in graph.edges(data=True):
        link = edge(values, str(src), str(dst), f"{path.name}: ", key, attributes)
        if link[:2] in seen:
            raise ScenarioError(key, f"{path.name}: '{src}' to '{dst}' is there twice")
        seen.add(link[:2])
        edges.append(link)
    return SiteMap(tuple(edges), graph.is_directed() if directed is None else directed)


def _refuse_document_types(data: bytes, path: Path, key: str) -> None:
    """Looks with the parser itself, which knows the file's encoding; what else is wrong shows when the file is read."""

    def refuse(*about: object) -> None:
        raise ScenarioError(key, f"{path.name}: document types and entities are refused")

    parser = ParserCreate()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    with suppress(ExpatError, LookupError, ValueError):
        parser.Parse(data, True)
