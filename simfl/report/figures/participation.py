"""Who took part when, how many clients an asynchronous server kept at work, and how old updates were in a sum."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.metrics.participation import concurrency
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.study import Group, Study

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


BINS = 120


@figure("concurrency", "Clients at work", "Time")
def draw_concurrency(study: Study) -> Drawn:
    """Clients at work at a time, asynchronous runs; averaged over a hundredth or so of the run and over the seeds."""
    from pandas import concat

    shown = asynchronous(study, _concurrency_table)
    fig, ((axes,),) = style.figure()
    for group, table in shown:
        axes.plot(table["time_s"], table["at_work"], drawstyle="steps-mid", **style.line_style(group, len(table)))
    axes.set_xlabel("Simulated time (s)")
    axes.set_ylabel("Clients at work")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    style.legend(fig, axes)
    return fig, concat([table for _, table in shown], ignore_index=True)


def _concurrency_table(group: Group) -> "DataFrame | None":
    """Rows: group, time_s (the middle of a bin), at_work; None for a synchronous group."""
    from pandas import DataFrame

    jobs = [run.jobs for run in group.runs if run.jobs is not None and len(run.jobs)]
    end = min((float(each["ended_s"].max()) for each in jobs), default=0.0)
    if not end:
        return None
    edges = np.linspace(0.0, end, BINS + 1)
    averages = []  # of each run, between the edges
    for each in jobs:
        times, working = concurrency(each["started_s"].to_numpy(), each["ended_s"].to_numpy())
        seconds = np.append(0.0, np.cumsum(working[:-1] * np.diff(times)))
        averages.append(np.diff(np.interp(edges, times, seconds)) / np.diff(edges))
    at_work = np.mean(averages, axis=0)
    return DataFrame({"group": group.label, "time_s": (edges[1:] + edges[:-1]) / 2, "at_work": at_work})


@figure("staleness", "Staleness of updates", "Time")
def draw_staleness(study: Study) -> Drawn:
    """Share of the aggregated updates by staleness: how many times the model had changed since its download."""
    from pandas import concat

    shown = asynchronous(study, _staleness_table)
    fig, ((axes,),) = style.figure()
    for group, table in shown:
        if len(shown) == 1:
            color = style.look(group.number)["color"]
            axes.bar(table["staleness"], table["share"], width=0.8, color=color, gid=style.tag(group))
        else:
            axes.plot(table["staleness"], table["share"], **style.line_style(group, len(table)))
    axes.set_xlabel("Staleness (model versions)")
    axes.set_ylabel("Share of updates")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    percent(axes.yaxis)
    style.legend(fig, axes)
    return fig, concat([table for _, table in shown], ignore_index=True)


def _staleness_table(group: Group) -> "DataFrame | None":
    """Rows: group, staleness, updates, share; None for a synchronous group."""
    from pandas import DataFrame

    ages = [
        run.jobs.loc[run.jobs["outcome"] == "aggregated", "staleness"].to_numpy(dtype=np.int64)
        for run in group.runs
        if run.jobs is not None
    ]
    counts = np.bincount(np.concatenate(ages)) if ages and sum(map(len, ages)) else None
    if counts is None:
        return None
    staleness = np.arange(len(counts))
    return DataFrame({"group": group.label, "staleness": staleness, "updates": counts, "share": counts / counts.sum()})


def asynchronous(study: Study, table: "Callable[[Group], DataFrame | None]") -> "list[tuple[Group, DataFrame]]":
    """The groups of asynchronous runs, each with the table that ``table`` makes from its ``jobs.csv``, None without
    one.

    Raises:
        NothingToDraw: no run was asynchronous.
    """
    shown = [(group, its_table) for group in study.groups if (its_table := table(group)) is not None]
    if not shown:
        raise NothingToDraw("no run was asynchronous (no jobs.csv)")
    return shown
