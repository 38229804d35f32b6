"""Who the clients of a run are: ``clients.csv``, and for a few clients who is how far from whom, ``latency.csv``.

The run writes both before its first round, so that whoever shows results need not build the scenario again.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np

from simfl.agents import Parts
from simfl.disk import write_atomically
from simfl.stored import ACCURACIES, CLIENTS, LATENCY
from simfl.types import SERVER

__all__ = ["FEW", "MOST_CELLS", "clients_files", "write_accuracies"]

MOST_CELLS = 400_000
"""Cells of clients.csv at most (well under a second to write); of more, label counts are left out, then the table."""

FEW = 60
"""Clients up to which the latency between any two is told."""


def clients_files(parts: Parts) -> dict[str, bytes]:
    """What there is to tell about the clients, as the content of files by name.

    ``clients.csv`` has a row a client: ``client``, ``name`` (empty where clients have only numbers), ``samples``,
    ``latency_s`` (one-way propagation to the server, without jitter), then one column a label, its training samples,
    where there are labels. ``latency.csv`` has a row an ordered pair: ``from``, ``to``, ``latency_s``; -1 is the
    server.
    """
    n = parts.clients
    if 4 * n > MOST_CELLS:
        return {}
    clients = np.arange(n, dtype=np.int64)
    columns: dict[str, Any] = {
        "client": clients,
        "name": [""] * n if parts.links.names is None else parts.links.names,
        "samples": parts.learner.samples,
        "latency_s": parts.links.latency_s(clients, np.full(n, SERVER)),
    }
    labels = parts.learner.labels
    if labels is not None and (4 + len(labels.names)) * n <= MOST_CELLS:
        columns |= {f"label {name}": counts for name, counts in zip(labels.names, labels.counts.T, strict=True)}
    found = {CLIENTS: _table(columns)}
    if n > FEW:
        return found
    ends = np.append(clients, SERVER)
    first, second = (end.ravel() for end in np.meshgrid(ends, ends, indexing="ij"))
    apart = first != second
    first, second = first[apart], second[apart]
    apart_s = parts.links.latency_s(first, second)
    return found | {LATENCY: _table({"from": first, "to": second, "latency_s": apart_s})}


def write_accuracies(folder: Path, parts: Parts) -> None:
    """Writes what models were worth to the clients when last measured, where that was asked for.

    ``accuracies.csv`` has a row a client: ``client``, ``accuracy`` of the model that it uses on samples of its own,
    ``trained``: of the model that its last local training left; empty where there is none.
    """
    found = parts.learner.accuracies()
    if found is not None and 3 * parts.clients <= MOST_CELLS:
        write_atomically(folder / ACCURACIES, _table({"client": np.arange(parts.clients), **found}))


def _table(columns: dict[str, Any]) -> bytes:
    import pandas

    text = io.StringIO()
    pandas.DataFrame(columns).to_csv(text, index=False, lineterminator="\n")
    return text.getvalue().encode()
