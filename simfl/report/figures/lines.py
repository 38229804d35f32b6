"""Lines over rounds or simulated time, one a group: what several figures have in common."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw
from simfl.report.seed_intervals import over_rounds, over_time
from simfl.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

BANDS = 6
"""Groups up to which confidence bands are drawn."""

AXES = {"rounds": "Rounds", "time_s": "Simulated time (s)"}


def tables(study: Study, column: str, x: str = "rounds") -> "DataFrame":
    """Means and intervals of a column for every group: group, x, mean, low, high, runs.

    Raises:
        NothingToDraw: no run has a value in this column.
    """
    from pandas import concat

    over = over_rounds if x == "rounds" else over_time
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
    axes: "Axes", study: Study, table: "DataFrame", x: str = "rounds", steps: bool = False, bands: int = BANDS
) -> None:
    """Draws the rows of :func:`tables`: a line a group, and a band where there is an interval.

    With ``steps`` a value holds until the next one. Of more groups than ``bands``, bands would hide one another.
    """
    drawstyle: Any = "steps-post" if steps else "default"
    for group in study.groups:
        rows = table[table.group == group.label]
        if len(rows):
            axes.plot(rows[x], rows["mean"], drawstyle=drawstyle, **style.line_style(group, len(rows)))
            if group.number is not None and len(study.groups) <= bands:
                band(axes, rows, x, style.look(group.number)["color"], style.tag(group), steps)
    axes.set_xlabel(AXES[x])
    whole(axes, x)
    axes.margins(x=0.01)


def band(axes: "Axes", rows: "DataFrame", x: str, color: str, tag: str, steps: bool = False) -> None:
    """The confidence interval, where there is one."""
    if rows["low"].notna().any():
        step: Any = "post" if steps else None
        axes.fill_between(rows[x], rows["low"], rows["high"], step=step, color=color, alpha=0.14, linewidth=0, gid=tag)


def line(axes: "Axes", rows: "DataFrame", number: int, label: str, x: str = "rounds", steps: bool = False) -> None:
    """One named line with its band, where the axes show several quantities of one group."""
    drawstyle: Any = "steps-post" if steps else "default"
    look = style.look(number) | style.marker(number, len(rows))
    axes.plot(rows[x], rows["mean"], drawstyle=drawstyle, label=label, gid=f"own-{label}", **look)
    band(axes, rows, x, look["color"], f"own-{label}", steps)
    axes.set_xlabel(AXES[x])
    whole(axes, x)
    axes.margins(x=0.01)


def whole(axes: "Axes", x: str) -> None:
    """Rounds are whole, and so are their ticks."""
    if x == "rounds":
        from matplotlib.ticker import MaxNLocator

        locator = axes.xaxis.get_major_locator()
        assert isinstance(locator, MaxNLocator), "the axis is linear"
        locator.set_params(integer=True)


def percent(axis: Any) -> None:
    """Shares as per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol=" %"))
    low, high = axis.get_view_interval()
    axis.axes.set(**{f"{axis.axis_name}lim": (max(low, 0.0), min(high, 1.0))})


def one_panel(
    study: Study, column: str, label: str, x: str = "rounds", adorn: Callable[["Axes"], object] | None = None
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
