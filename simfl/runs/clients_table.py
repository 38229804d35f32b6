"""Who the clients of a run are: ``clients.csv``, and for a few clients who is how far from whom, ``latency.csv``.

The run writes both before its first round, so that whoever shows results need not build the scenario again.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import compressobj

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import write_atomically
from simfl.core.types import SERVER
from simfl.results.file_names import ACCURACIES, CLIENTS, GZ, LATENCY
from simfl.training.base import Rule

PLAIN = 1000
"""Clients up to which clients.csv and accuracies.csv are plain text; of more they are compressed, ``.csv.gz``."""

MOST_CELLS = 1_000_000
"""Cells of clients.csv at most (well under a second to write); of more, label counts are left out, then the table, and
the summary says so.
"""

_ROWS = 10_000
"""Rows that are put in words at once."""

FEW = 60
"""Clients up to which the latency between any two is told."""


def clients_files(parts: Components[Rule]) -> dict[str, bytes]:
    """What there is to tell about the clients, as the content of files by name.

    ``clients.csv`` (``clients.csv.gz``, see :data:`PLAIN`) has a row a client: ``client``, ``name`` (empty where
    clients have only numbers), ``samples``, ``latency_s`` (one-way propagation to the server, without jitter); where
    links with names are shared, ``links_down`` and ``links_up``, the names of those that its messages from and to the
    server cross; then one column a label, its training samples, where there are labels. ``latency.csv`` has a row an
    ordered pair: ``from``, ``to``, ``latency_s``; -1 is the server.
    """
    n, files = parts.clients, dict[str, bytes]()
    clients = np.arange(n, dtype=np.int64)
    if 4 * n <= MOST_CELLS:
        name, data = _file(CLIENTS, _columns(parts, clients))
        files[name] = data
    if n > FEW:
        return files
    ends = np.append(clients, SERVER)
    first, second = (end.ravel() for end in np.meshgrid(ends, ends, indexing="ij"))
    distinct = first != second
    first, second = first[distinct], second[distinct]
    latency_s = parts.links.latency_s(first, second)
    return files | {LATENCY: b"".join(_pieces({"from": first, "to": second, "latency_s": latency_s}))}


def left_out(parts: Components[Rule]) -> dict[str, list[str]]:
    """What a run of very many clients does not write of them, and why, for its summary; nothing where it writes all."""
    n, accuracies = parts.clients, parts.learner.evaluator.client_accuracies()
    labels = len(parts.learner.label_names)
    widths = {CLIENTS: 4, f"the label counts of {CLIENTS}": 4 + labels if labels else 0}
    widths[ACCURACIES] = 0 if accuracies is None else 1 + len(accuracies)
    text = "{} ({:,} cells; {:,} are the most)"
    each = [text.format(what, n * width, MOST_CELLS) for what, width in widths.items() if n * width > MOST_CELLS]
    return {"left_out": each} if each else {}


def _columns(parts: Components[Rule], clients: NDArray[np.int64]) -> JsonObject:
    n = len(clients)
    columns: JsonObject = {
        "client": clients,
        "name": [""] * n if parts.links.names is None else parts.links.names,
        "samples": parts.learner.samples,
        "latency_s": parts.links.latency_s(clients, np.full(n, SERVER)),
    }
    columns |= _link_columns(parts)
    few = (4 + len(parts.learner.label_names)) * n <= MOST_CELLS
    if few and (labels := parts.learner.labels) is not None:
        columns |= {f"label {name}": counts for name, counts in zip(labels.names, labels.counts.T, strict=True)}
    return columns


def _link_columns(parts: Components[Rule]) -> dict[str, list[str]]:
    """The named links that messages of each client share, with spaces between their names."""
    named = () if parts.sharing is None or parts.sharing.shared is None else parts.sharing.shared.named
    if not named:
        return {}
    sides = {"links_down": [link.down for link in named], "links_up": [link.up for link in named]}
    return {
        column: [
            " ".join(link.name for link, is_on in zip(named, row, strict=True) if is_on)
            for row in np.array(crosses).T.tolist()
        ]
        for column, crosses in sides.items()
    }


def write_accuracies(folder: Path, parts: Components[Rule]) -> None:
    """Writes what models were worth to the clients when last measured, where that was asked for.

    ``accuracies.csv`` (``accuracies.csv.gz``, see :data:`PLAIN`) has a row a client: ``client``, ``accuracy`` of the
    model that it uses on samples of its own, ``trained``: of the model that its last local training left, and where
    that was asked for ``best``: of the best of all that they left; empty where there is none.
    """
    accuracies = parts.learner.evaluator.client_accuracies()
    if accuracies is not None and (1 + len(accuracies)) * parts.clients <= MOST_CELLS:
        name, data = _file(ACCURACIES, {"client": np.arange(parts.clients), **accuracies})
        write_atomically(folder / name, data)


def _file(name: str, columns: JsonObject) -> tuple[str, bytes]:
    """A table as a file: its name and content; of many clients compressed, without a time or a name in it."""
    pieces = _pieces(columns)
    if len(columns["client"]) <= PLAIN:
        return name, b"".join(pieces)
    press = compressobj(level=1, wbits=31)  # a gzip file; higher levels take ten times as long for a tenth less
    return f"{name}{GZ}", b"".join([*map(press.compress, pieces), press.flush()])


def _pieces(columns: JsonObject) -> Iterator[bytes]:
    """A CSV text, some rows at a time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, _ROWS):
        writer.writerows(zip(*(_cells(values[start : start + _ROWS]) for values in columns.values()), strict=True))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()  # the headings of a table without rows


def _cells(values: Sequence[object] | NDArray[np.generic]) -> Sequence[object]:
    """Values as a CSV file holds them; empty where there is no number. Texts stay what they are."""
    if not isinstance(values, np.ndarray):
        return values
    if not np.issubdtype(values.dtype, np.floating):
        return values.tolist()
    cells = map(str, values) if values.dtype == np.float32 else values.tolist()
    return ["" if missing else cell for cell, missing in zip(cells, np.isnan(values), strict=True)]
