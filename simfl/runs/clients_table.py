"""Who the clients of a run are: ``clients.csv``, and for a few clients who is how far from whom, ``latency.csv``.

The run writes both before its first round, so that whoever shows results need not build the scenario again.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.agents import Components
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import write_atomically
from simfl.core.types import SERVER
from simfl.results.file_names import ACCURACIES, CLIENTS, LATENCY
from simfl.training.base import Rule

MOST_CELLS = 400_000
"""Cells of clients.csv at most (well under a second to write); of more, label counts are left out, then the table."""

_ROWS = 10_000
"""Rows that are put in words at once."""

FEW = 60
"""Clients up to which the latency between any two is told."""


def clients_files(parts: Components[Rule]) -> dict[str, bytes]:
    """What there is to tell about the clients, as the content of files by name.

    ``clients.csv`` has a row a client: ``client``, ``name`` (empty where clients have only numbers), ``samples``,
    ``latency_s`` (one-way propagation to the server, without jitter); where links with names are shared, ``links_down``
    and ``links_up``, the names of those that its messages from and to the server cross; then one column a label, its
    training samples, where there are labels. ``latency.csv`` has a row an ordered pair: ``from``, ``to``,
    ``latency_s``; -1 is the server.
    """
    n = parts.clients
    if 4 * n > MOST_CELLS:
        return {}
    clients = np.arange(n, dtype=np.int64)
    columns: JsonObject = {
        "client": clients,
        "name": [""] * n if parts.links.names is None else parts.links.names,
        "samples": parts.learner.samples,
        "latency_s": parts.links.latency_s(clients, np.full(n, SERVER)),
    }
    columns |= _link_columns(parts)
    labels = parts.learner.labels
    if labels is not None and (len(columns) + len(labels.names)) * n <= MOST_CELLS:
        columns |= {f"label {name}": counts for name, counts in zip(labels.names, labels.counts.T, strict=True)}
    files = {CLIENTS: _table(columns)}
    if n > FEW:
        return files
    ends = np.append(clients, SERVER)
    first, second = (end.ravel() for end in np.meshgrid(ends, ends, indexing="ij"))
    distinct = first != second
    first, second = first[distinct], second[distinct]
    latency_s = parts.links.latency_s(first, second)
    return files | {LATENCY: _table({"from": first, "to": second, "latency_s": latency_s})}


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

    ``accuracies.csv`` has a row a client: ``client``, ``accuracy`` of the model that it uses on samples of its own,
    ``trained``: of the model that its last local training left, and where that was asked for ``best``: of the best of
    all that they left; empty where there is none.
    """
    accuracies = parts.learner.evaluator.client_accuracies()
    if accuracies is not None and (1 + len(accuracies)) * parts.clients <= MOST_CELLS:
        write_atomically(folder / ACCURACIES, _table({"client": np.arange(parts.clients), **accuracies}))


def _table(columns: JsonObject) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, _ROWS):
        writer.writerows(zip(*(_cells(values[start : start + _ROWS]) for values in columns.values()), strict=True))
    return text.getvalue().encode()


def _cells(values: Sequence[object] | NDArray[np.generic]) -> Sequence[object]:
    """Values as a CSV file holds them; empty where there is no number. Texts stay what they are."""
    if not isinstance(values, np.ndarray):
        return values
    if not np.issubdtype(values.dtype, np.floating):
        return values.tolist()
    cells = map(str, values) if values.dtype == np.float32 else values.tolist()
    return ["" if missing else cell for cell, missing in zip(cells, np.isnan(values), strict=True)]
