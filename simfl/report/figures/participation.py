"""Who took part when: clients against rounds."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from scipy.sparse import csr_array

CELLS = 24_000
"""Cells of all panels together; larger matrices are shown by the means of their blocks."""

PANELS = 12


@figure("participation", "Participation", "Participation", wide=True)
def draw(study: Study) -> Drawn:
    """Each dot is a client whose update was aggregated in a round, in the first seed; the stronger its
    colour, the heavier it counted, or the more often where many clients and rounds share a dot.
    """
    from pandas import concat

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
        table = _heat_map(axes, run.participation, CELLS // len(shown))
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


def _heat_map(axes: "Axes", matrix: "csr_array", most: int) -> "DataFrame":
    """Draws a participation matrix, and the table of what is drawn: client, round_0, ...; a row and column a block."""
    from pandas import DataFrame

    cells, high, wide = blocks(matrix, most)
    image = np.empty((*cells.T.shape, 4))
    image[..., :3] = style.CELL
    image[..., 3] = cells.T / cells.max()
    extent = (-0.5, cells.shape[0] * high - 0.5, -0.5, cells.shape[1] * wide - 0.5)
    axes.imshow(image, origin="lower", aspect="auto", interpolation="none", extent=extent)
    axes.grid(False)
    table = DataFrame(np.round(cells.T, 4), columns=[f"round_{i * high}" for i in range(len(cells))])
    table.insert(0, "client", np.arange(cells.shape[1]) * wide)
    return table


def blocks(matrix: "csr_array", most: int) -> tuple[NDArray[np.float64], int, int]:
    """A participation matrix as means of at most ``most`` equal blocks, and how high (rounds) and wide these are."""
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
