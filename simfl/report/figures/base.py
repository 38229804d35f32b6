"""What a figure is: a function from a study to a matplotlib figure and the table of everything drawn in it."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError
from simfl.core.registration.packages import Broken, load_package, packages
from simfl.core.validation import checked_pair
from simfl.report import style
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from simfl.core.columns import Column

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
        caption = " ".join((draw.__doc__ or "").split("\n\n")[0].split())
        FIGURES[name] = Kind(name, title, caption, section, wide, draw)
        return draw

    return register


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
