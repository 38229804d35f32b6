"""What a figure is: a function from a study to a matplotlib figure and the table of everything drawn in it."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from simfl.core.columns import Column
from simfl.core.errors import SimflError
from simfl.core.registration.packages import Broken, load_package, packages
from simfl.core.validation import checked_pair, checked_type
from simfl.report import style
from simfl.report.measures import over_rounds, over_time, seed_column
from simfl.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


Drawn = tuple["Figure", "DataFrame"]
"""A figure, and the table of everything drawn in it."""

Draw = Callable[[Study], Drawn]


class NothingToDraw(SimflError):
    """The results hold nothing that the figure shows; the message says what is missing."""


@dataclass(frozen=True)
class Kind:
    """A named figure.

    Attributes:
        name: as ``simfl plot --figure`` takes it.
        caption: what is seen, one or two sentences.
        wide: needs a whole line of the page.
    """

    name: str
    title: str
    caption: str
    section: str
    wide: bool
    draw: Draw

    def __call__(self, study: Study, **changes: object) -> Drawn:
        """The figure, and the table of all that is drawn in it; ``changes`` are matplotlib settings, "_" for the first
        ".".

        Raises:
            NothingToDraw: the results hold nothing that it shows.
        """
        with style.settings(**changes):
            return self.draw_in_place(study)

    def draw_in_place(self, study: Study) -> Drawn:
        """The figure and its table, in whatever settings there are.

        Raises:
            NothingToDraw: the results hold nothing that it shows.
            PluginError: its function gives something else.
        """
        result = self.draw(study)
        checked_pair(result, f"figure '{self.name}'", "its function", "(figure, table)")
        fig, table = result
        from matplotlib.figure import Figure
        from pandas import DataFrame

        for part, kind in ((fig, Figure), (table, DataFrame)):
            checked_type(part, kind, f"figure '{self.name}'", "its function", "(matplotlib Figure, pandas DataFrame)")
        if certificates := [column for column in drawn_columns(study, table) if column.observer]:
            style.footnote(fig, study.certificate_notes(certificates))
        return result


def drawn_columns(study: Study, table: "DataFrame") -> "Iterator[Column]":
    """The columns of a study's runs that a figure's table names, in its heading or in its cells."""
    from pandas.api.types import is_numeric_dtype

    cells = (table[name].unique() for name in table.columns if not is_numeric_dtype(table[name]))
    named = {*map(str, table.columns), *(str(cell) for column in cells for cell in column)}
    return (column for name, column in study.columns.items() if name in named or column.heading in named)


FIGURES: dict[str, Kind] = {}
"""Every figure by name; those of other packages once :func:`broken` has been called."""


@cache
def broken() -> tuple[Broken, ...]:
    """Loads the figures of other packages, entry points of the group ``simfl.figure``; those that do not load."""
    lame = []
    for package in packages("simfl.figure"):
        before = dict(FIGURES)
        if problem := load_package(package, FIGURES.__contains__):
            lame.append(problem)
            if package.module not in sys.modules:
                FIGURES.clear()
                FIGURES.update(before)
    return tuple(lame)


def figure(name: str, title: str, section: str, wide: bool = False) -> Callable[[Draw], Draw]:
    """Registers a drawing function; the first paragraph of its docstring is the caption.

    Args:
        name: as ``simfl plot --figure`` takes it.
        title: its heading.
        section: of the page.
        wide: needs a whole line of the page.

    A worked example, with two groups that send 4,000 and 12,000 bytes:

    >>> from types import SimpleNamespace
    >>> from pandas import DataFrame
    >>> @figure("traffic_example", "Traffic", "Time")
    ... def draw(study):
    ...     '''Bytes sent in the whole run.'''
    ...     rows = [(group.label, group.first.summary["bytes_up"]) for group in study.groups]
    ...     table = DataFrame(rows, columns=["group", "bytes"])
    ...     fig, ((axes,),) = style.figure()
    ...     axes.bar(table["group"], table["bytes"])
    ...     return fig, table
    >>> sent = {"random": 4000, "all": 12000}
    >>> runs = {label: SimpleNamespace(summary={"bytes_up": number}) for label, number in sent.items()}
    >>> groups = [SimpleNamespace(label=label, first=run) for label, run in runs.items()]
    >>> study = SimpleNamespace(groups=groups, columns={})
    >>> kind = FIGURES.pop("traffic_example")
    >>> kind.caption
    'Bytes sent in the whole run.'
    >>> fig, table = kind(study)
    >>> table
        group  bytes
    0  random   4000
    1     all  12000
    >>> [int(bar.get_height()) for bar in fig.axes[0].patches]
    [4000, 12000]
    """

    def register(draw: Draw) -> Draw:
        try:
            signature(draw).bind(None)
        except TypeError as error:
            raise TypeError(f"figure '{name}': its function is called with (study): {error}") from None
        caption = " ".join((draw.__doc__ or "").split("\n\n")[0].split())
        FIGURES[name] = Kind(name, title, caption, section, wide, draw)
        return draw

    return register


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
