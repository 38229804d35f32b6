"""Lines over rounds or simulated time, one a group: what several figures have in common."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw
from simfl.report.seed_intervals import over_rounds, over_time, seed_column
from simfl.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

BANDS = 6
"""Groups up to which confidence bands, or the lines of single seeds, are drawn."""

THIN: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.6, "zorder": 1.9}
"""Of a single seed's line."""

AXES = {"round": "Round", "time_s": "Simulated time (s)"}


def tables(study: Study, column: str, x: str = "round") -> "DataFrame":
    """Means and intervals of a column for every group: group, x, mean, low, high, runs and, of few seeds, each one's
    values, ``seed_0`` and so on.

    Raises:
        NothingToDraw: no run has a value in this column.
    """
    from pandas import concat

    over = over_rounds if x == "round" else over_time
    by_group = [(group.label, over(group, column)) for group in study.groups]
    parts = [table.assign(group=label)[["group", *table.columns]] for label, table in by_group if len(table)]
    if not parts:
        raise NothingToDraw(f"no run has a value for {column}")
    return concat(parts, ignore_index=True)


def filled_tables(study: Study, columns: Iterable[str]) -> "dict[str, DataFrame]":
    """The :func:`tables` of those columns in which some run has a value."""
    filled = {}
    for column in columns:
        with suppress(NothingToDraw):
            filled[column] = tables(study, column)
    return filled


def lines(
    axes: "Axes", study: Study, table: "DataFrame", x: str = "round", steps: bool = False, bands: int = BANDS
) -> None:
    """Draws the rows of :func:`tables`: a line a group, and around it a band, or thin lines where the seeds are few.

    With ``steps`` a value holds until the next one. Of more groups than ``bands``, bands would hide one another.
    """
    drawstyle: Any = "steps-post" if steps else "default"
    for group in study.groups:
        rows = table[table.group == group.label]
        if len(rows):
            axes.plot(rows[x], rows["mean"], drawstyle=drawstyle, **style.line_style(group, len(rows)))
            if group.number is not None and len(study.groups) <= bands:
                spread(axes, rows, x, style.look(group.number)["color"], style.tag(group), steps)
    _finish_x(axes, x)


def spread(axes: "Axes", rows: "DataFrame", x: str, color: str, tag: str, steps: bool = False) -> None:
    """What the seeds leave open: the confidence interval or, of few seeds, each one's own line."""
    seeds = [column for column in rows.columns if column.startswith(seed_column("")) and rows[column].notna().any()]
    drawstyle: Any = "steps-post" if steps else "default"
    for column in seeds:
        axes.plot(rows[x], rows[column], drawstyle=drawstyle, color=color, label="_", gid=f"thin-{tag}", **THIN)
    if not seeds and rows["low"].notna().any():
        step: Any = "post" if steps else None
        axes.fill_between(rows[x], rows["low"], rows["high"], step=step, color=color, alpha=0.14, linewidth=0, gid=tag)


def line(axes: "Axes", rows: "DataFrame", number: int, label: str, x: str = "round", steps: bool = False) -> None:
    """One named line with its band, where the axes show several quantities of one group."""
    drawstyle: Any = "steps-post" if steps else "default"
    look = style.look(number) | style.marker(number, len(rows))
    axes.plot(rows[x], rows["mean"], drawstyle=drawstyle, label=label, gid=f"own-{label}", **look)
    spread(axes, rows, x, look["color"], f"own-{label}", steps)
    _finish_x(axes, x)


def _finish_x(axes: "Axes", x: str) -> None:
    """Names the axis and ends it; rounds are whole, and so are their ticks."""
    axes.set_xlabel(AXES[x])
    axes.margins(x=0.01)
    bound(axes.xaxis)
    if x == "round":
        from matplotlib.ticker import MaxNLocator

        locator = axes.xaxis.get_major_locator()
        assert isinstance(locator, MaxNLocator), "the axis is linear"
        locator.set_params(integer=True)


def percent(axis: Any) -> None:
    """Shares as per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol=" %"))
    bound(axis, 0.0, 1.0)


def bound(axis: Any, least: float | None = 0.0, most: float | None = None) -> None:
    """Ends an axis where no value is possible beyond: 0, or a whole. Call it when everything has been drawn."""
    low, high = axis.get_view_interval()
    if least is not None:
        low = max(low, least)
    if most is not None:
        high = min(high, most)
    if low < high:
        axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})


def one_panel(
    study: Study, column: str, label: str, x: str = "round", adorn: Callable[["Axes"], object] | None = None
) -> Drawn:
    """A whole figure of one column; the figure and its table."""
    table = tables(study, column, x)
    fig, ((axes,),) = style.figure()
    lines(axes, study, table, x)
    axes.set_ylabel(label)
    if adorn:
        adorn(axes)
    style.legend(fig, axes)
    return fig, table
