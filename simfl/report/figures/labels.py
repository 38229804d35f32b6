"""Which classes each client's samples belong to."""

from typing import Any

import numpy as np

from simfl.errors import SimflError
from simfl.report import style
from simfl.report.figures.base import NothingToDraw, figure
from simfl.report.study import Run, Study

CLIENTS = 240
"""Columns at most; of more clients, every n-th."""


@figure("labels", "Labels of the clients", "Learning")
def draw(study: Study) -> Any:
    """Training samples of each class at each client, in the first seed: the stronger the colour, the more. Even rows
    mean clients that are alike.
    """
    from matplotlib.ticker import MaxNLocator
    from pandas import DataFrame

    counts, names = _counts(study.groups[0].first)
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
    if any(axis.split(".")[0] in ("learning", "clients") for axis in study.axes):
        style.title(axes, f"{study.groups[0].label} only")
    style.note(axes, f"strongest colour: {shown.max()} samples")
    table = DataFrame(shown, columns=list(names))
    table.insert(0, "client", np.arange(len(shown)) * every)
    return fig, table


def _counts(run: Run) -> Any:
    """Samples of each client and class, int64 (clients, classes), and the classes' names."""
    from simfl.learning.supervised import Supervised
    from simfl.rng import Streams
    from simfl.scenario import Scenario

    try:
        scenario = Scenario.load(run.path / "scenario.yaml")
        if not isinstance(scenario.learning, Supervised):
            raise NothingToDraw("nothing is learned from data")
        streams = Streams(scenario.seed)
        data = scenario.learning.data.load(scenario, streams)
        split = scenario.learning.partition.split(data, scenario.clients, streams("partition"))
    except SimflError as error:
        raise NothingToDraw(f"the data set is not at hand: {error}") from None
    owners = np.repeat(np.arange(scenario.clients), split.sizes)
    cells = owners * data.classes + data.y_train[split.indices]
    counts = np.bincount(cells, minlength=scenario.clients * data.classes).reshape(scenario.clients, data.classes)
    return counts, data.label_names
