"""Who took part when: clients against rounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import NothingToDraw, figure
from simfl.report.study import Study

CELLS = 24_000
"""Cells of all panels together; larger matrices are shown by the means of their blocks."""

PANELS = 12


@figure("participation", "Participation", "Participation", wide=True)
def draw(study: Study) -> Any:
    """Each dot is a client whose update was aggregated in a round, in the first seed; the stronger its
    colour, the heavier it counted, or the more often where many clients and rounds share a dot. Rounds count from 1.
    """
    from pandas import DataFrame, concat

    shown = [group for group in study.groups if group.number is not None][:PANELS]
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    fig, grid = style.figure(
        rows, columns, wide=True, height_in=0.55 + rows * (3.0 if rows == 1 else 1.75), sharex=True, sharey=True
    )
    tables = []
    for axes, group in zip(grid.flat, shown, strict=False):
        run = group.first
        if not study.single:
            style.title(axes, group.label)
        if not run.participation.nnz:
            axes.text(0.5, 0.5, "nobody took part", transform=axes.transAxes, ha="center", va="center")
            axes.grid(False)
            continue
        cells, high, wide = blocks(run.participation, CELLS // len(shown))
        strongest = cells.max()
        image = np.empty((*cells.T.shape, 4))
        image[..., :3] = style.CELL
        image[..., 3] = cells.T / strongest
        extent = (0.5, cells.shape[0] * high + 0.5, -0.5, cells.shape[1] * wide - 0.5)
        axes.imshow(image, origin="lower", aspect="auto", interpolation="none", extent=extent)
        axes.grid(False)
        names = [f"round_{i * high}" for i in range(len(cells))]
        table = DataFrame(np.round(cells.T, 4), columns=names)
        table.insert(0, "client", np.arange(cells.shape[1]) * wide)
        table.insert(0, "group", group.label)
        tables.append(table)
    if not tables:
        raise NothingToDraw("nobody took part")
    for axes in grid.flat[len(shown) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_ylabel("Client")
    for place, axes in enumerate(grid.flat[: len(shown)]):
        if place + columns >= len(shown):
            axes.set_xlabel("Round")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.tick_params(labelbottom=True)
    return fig, concat(tables, ignore_index=True)


def blocks(matrix: Any, most: int) -> tuple[NDArray[np.float64], int, int]:
    """A participation matrix as means of equal blocks.

    Args:
        matrix: sparse, shape (rounds, clients).
        most: cells wanted at most.

    Returns:
        The means, shape (rounds / high, clients / wide), rounded up, and the blocks' ``high`` and ``wide``.
    """
    rounds, clients = matrix.shape
    high = wide = 1
    while -(-rounds // high) * -(-clients // wide) > most:
        if rounds / high > 1.6 * clients / wide:
            high += 1
        else:
            wide += 1
    coordinates = matrix.tocoo()
    sums = np.zeros((-(-rounds // high), -(-clients // wide)))
    np.add.at(sums, (coordinates.row // high, coordinates.col // wide), coordinates.data)
    sizes = np.outer(_lengths(rounds, high), _lengths(clients, wide))
    return sums / sizes, high, wide


def _lengths(total: int, size: int) -> NDArray[np.int64]:
    """Lengths of consecutive blocks of a size; the last one may be shorter."""
    starts = np.arange(0, total, size)
    return np.minimum(starts + size, total) - starts
