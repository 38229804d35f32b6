"""What a figure is: a function from a study to a matplotlib figure and the table of everything drawn in it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from simfl.errors import SimflError
from simfl.packages import Broken, load_package, packages
from simfl.report import style
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["FIGURES", "Kind", "NothingToDraw", "asynchronous", "broken", "figure"]

Draw = Callable[[Study], "tuple[Figure, DataFrame]"]


class NothingToDraw(SimflError):
    """The results hold nothing that the figure shows; the message says what is missing."""


@dataclass(frozen=True)
class Kind:
    """A named figure.

    Attributes:
        name: as ``simfl plot --figure`` takes it.
        title: its heading.
        caption: what is seen, one or two sentences.
        section: of the page.
        wide: needs a whole line of the page.
        draw: the function that draws it.
    """

    name: str
    title: str
    caption: str
    section: str
    wide: bool
    draw: Draw

    def __call__(self, study: Study, **changes: Any) -> "tuple[Figure, DataFrame]":
        """Draws the figure.

        Args:
            study: what is drawn.
            changes: matplotlib settings, "_" for the first ".".

        Returns:
            The figure, and the table of all that is drawn in it.

        Raises:
            NothingToDraw: the results hold nothing that it shows.
        """
        with style.settings(**changes):
            fig, table = self.draw(study)
            return fig, table


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
            FIGURES.clear()
            FIGURES.update(before)
    return tuple(lame)


def figure(name: str, title: str, section: str, wide: bool = False) -> Callable[[Draw], Draw]:
    """Registers a drawing function; the first paragraph of its docstring is the caption."""

    def register(draw: Draw) -> Draw:
        caption = " ".join((draw.__doc__ or "").split("\n\n")[0].split())
        FIGURES[name] = Kind(name, title, caption, section, wide, draw)
        return draw

    return register


def asynchronous(study: Study, table: "Callable[[Group], DataFrame | None]") -> "list[tuple[Group, DataFrame]]":
    """The groups of asynchronous runs, each with its table.

    Args:
        study: what is drawn.
        table: makes a group's table from ``jobs.csv``; None where its runs have none.

    Raises:
        NothingToDraw: no run was asynchronous.
    """
    found = [(group, made) for group in study.groups if (made := table(group)) is not None]
    if not found:
        raise NothingToDraw("no run was asynchronous (no jobs.csv)")
    return found
