"""The clients: which classes their samples belong to, and how good the models are that they use."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.study import Run, Study

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


MODELS = {"accuracy": "model in use", "trained": "after local training"}
POINTS = 200
"""Points of a curve at most."""


@figure("clients", "Accuracy of the clients", "Learning", wide=True)
def draw_accuracies(study: Study) -> Drawn:
    """Clients by the accuracy of their models on samples of their own at the end of the run: which share of them is no
    better off. Left the model that each uses, right the one that its last local training left. All seeds.
    """
    from pandas import DataFrame, concat

    parts = []
    for group in study.groups:
        measured = [run.accuracies for run in group.runs if run.accuracies is not None]
        for model in MODELS if measured else ():
            values = np.sort(concat(measured)[model].dropna().to_numpy())
            shares = np.arange(1, len(values) + 1) / max(len(values), 1)
            points = np.unique(np.linspace(0, len(values) - 1, POINTS).astype(int)) if len(values) else np.arange(0)
            parts.append(
                DataFrame({"group": group.label, "model": model, "accuracy": values[points], "share": shares[points]})
            )
    table = concat(parts, ignore_index=True) if parts else DataFrame()
    if table.empty:
        raise NothingToDraw("clients' models were not measured; set learning.evaluate.per_client to true")
    fig, (panels,) = style.figure(1, len(MODELS), wide=True, sharey=True)
    for axes, (model, words) in zip(panels, MODELS.items(), strict=True):
        for group in study.groups:
            rows = table[(table.group == group.label) & (table.model == model)]
            if len(rows):
                axes.plot(rows.accuracy, rows.share, drawstyle="steps-post", **style.line_style(group, len(rows)))
        style.title(axes, words)
        axes.set_xlabel("Accuracy on its own samples")
        axes.set_ylim(0, 1.02)
        percent(axes.xaxis)
    panels[0].set_ylabel("Share of the clients")
    percent(panels[0].yaxis)
    style.legend(fig, panels[0])
    return fig, table
