"""Networks in GraphML and GEXF files."""

import warnings
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from xml.parsers.expat import ExpatError, ParserCreate

from simfl.core.errors import ScenarioError
from simfl.core.storage.data_folder import read_bytes
from simfl.network.csv_file import USUAL, Attributes, edge
from simfl.network.topology import Topology

MAX_XML_BYTES = 16 * 2**20


def read_xml(path: Path, key: str, directed: bool | None = None, attributes: Attributes = USUAL) -> Topology:
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
    return Topology(tuple(edges), graph.is_directed() if directed is None else directed)


def _refuse_document_types(data: bytes, path: Path, key: str) -> None:
    """Looks with the parser itself, which knows the file's encoding; what else is wrong shows when the file is read."""

    def refuse(*about: object) -> None:
        raise ScenarioError(key, f"{path.name}: document types and entities are refused")

    parser = ParserCreate()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    with suppress(ExpatError, LookupError, ValueError):
        parser.Parse(data, True)
