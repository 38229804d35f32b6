"""How a partition deals out the samples and their labels: indices, counts, and a figure of the counts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.learning.partitions.base import Split

__all__ = ["draw", "label_histogram", "write_csv", "write_indices"]

SHOWN = 120
"""Clients in a figure; of more, so many spread evenly over all are shown."""


def label_histogram(labels: NDArray[np.int64], split: Split, classes: int) -> NDArray[np.int64]:
    """Samples of each class that each client holds, int64, shape (clients, classes).

    Args:
        labels: class of each training sample, shape (n,).
        split: which client holds which sample.
        classes: number of classes.
    """
    owners = np.repeat(np.arange(len(split)), split.sizes)
    cells = owners * classes + labels[split.indices]
    return np.bincount(cells, minlength=len(split) * classes).reshape(len(split), classes)


def write_csv(path: Path, counts: NDArray[np.int64], label_names: Sequence[str]) -> None:
    """The histogram as a table: client, samples, one column a label."""
    import pandas as pd

    table = pd.DataFrame(counts, columns=list(label_names))
    table.insert(0, "samples", counts.sum(axis=1))
    table.to_csv(path, index_label="client", lineterminator="\n")


def write_indices(path: Path, split: Split) -> None:
    """Every client's samples as a table: client, sample (its position in the training part), client after client."""
    import pandas as pd

    owners = np.repeat(np.arange(len(split)), split.sizes)
    pd.DataFrame({"client": owners, "sample": split.indices}).to_csv(path, index=False, lineterminator="\n")


def draw(path: Path, counts: NDArray[np.int64], label_names: Sequence[str], title: str) -> None:
    """Stacked bars, one a client, one colour a label, as SVG; the same bytes for the same counts."""
    import matplotlib

    clients = np.unique(np.linspace(0, len(counts) - 1, min(SHOWN, len(counts))).round().astype(int))
    with matplotlib.rc_context({"svg.hashsalt": "simfl", "svg.fonttype": "none"}):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        colours = matplotlib.colormaps["tab20" if len(label_names) > 10 else "tab10"]
        bottom = np.zeros(len(clients))
        for label, name in enumerate(label_names):
            height = counts[clients, label]
            axes.bar(np.arange(len(clients)), height, 1.0, bottom, color=colours(label % colours.N), label=name)
            bottom += height
        ticks = np.unique(np.linspace(0, len(clients) - 1, min(10, len(clients))).round().astype(int))
        axes.set_xticks(ticks, clients[ticks])
        shown = "client" if len(clients) == len(counts) else f"client ({len(clients)} of {len(counts)} shown)"
        axes.set(xlabel=shown, ylabel="training samples", title=title, xlim=(-0.5, len(clients) - 0.5))
        if len(label_names) <= 20:
            figure.legend(loc="outside right upper", fontsize="small")
        figure.savefig(path, format="svg", metadata={"Date": None})
