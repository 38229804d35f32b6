"""Which classes each client's samples belong to."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.finished_run import Run
from simfl.report.study import Study

LABEL = "label "
"""What the columns of clients.csv that count samples begin with."""

CLIENTS = 240
"""Columns at most; of more clients, every n-th."""


@figure("labels", "Labels of the clients", "Learning")
def draw(study: Study) -> Drawn:
    """Training samples of each class at each client, in the first seed: the stronger the colour, the more. Even rows
    mean clients that are alike.
    """
    fig, table = histogram(*_counts(study.groups[0].first))
    if any(axis.split(".")[0] in ("learning", "clients") for axis in study.axes):
        style.title(fig.axes[0], f"{study.groups[0].label} only")
    return fig, table


def histogram(counts: NDArray[np.int64], names: Sequence[str]) -> Drawn:
    """The figure of samples of each client and class, shape (clients, classes), and its table."""
    from matplotlib.ticker import MaxNLocator
    from pandas import DataFrame

    every = -(-len(counts) // CLIENTS)
    shown = counts[::every]
    image = np.empty((*shown.T.shape, 4))
    image[..., :3] = style.CELL
    image[..., 3] = shown.T / max(shown.max(), 1)
    fig, ((axes,),) = style.figure()
    extent = (-every / 2, len(shown) * every - every / 2, -0.5, len(names) - 0.5)
    axes.imshow(image, origin="lower", aspect="auto", interpolation="none", extent=extent)
    axes.grid(False)
    axes.set_xlabel("Client" if every == 1 else f"Client (every {every}th)")
    axes.set_ylabel("Class")
    if len(names) <= 20:
        axes.set_yticks(range(len(names)), names)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.note(axes, f"strongest colour: {shown.max()} samples")
    table = DataFrame(shown, columns=list(names))
    table.insert(0, "client", np.arange(len(shown)) * every)
    return fig, table


def _counts(run: Run) -> tuple[NDArray[np.int64], list[str]]:
    """Samples of each client and class, int64 (clients, classes), and the classes' names."""
    labels = [name for name in run.clients_table.columns if name.startswith(LABEL)]
    if not labels:
        raise NothingToDraw("no labels of the clients were recorded: nothing is learned from data, or there are too "
                            "many clients")  # fmt: skip
    return run.clients_table[labels].to_numpy(dtype=np.int64), [name.removeprefix(LABEL) for name in labels]
