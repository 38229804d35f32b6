"""Results as figures and as one HTML page. Reads ``results/`` and nothing else.

In a notebook::

    from simfl import report

    study = report.read_study(["results/quickstart"])
    fig, table = report.draw("accuracy", study)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.errors import SimflError, suggestion
from simfl.report.reading import read_study
from simfl.report.study import Group, Member, Run, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["Group", "Member", "Run", "Study", "draw", "figure", "read_study"]


def draw(name: str, source: Study | Path | str | Sequence[Path | str], **changes: Any) -> "tuple[Figure, DataFrame]":
    """A figure as a matplotlib object, and the pandas table of everything drawn in it.

    Args:
        name: of the figure, e.g. ``accuracy``; ``simfl plot --help`` lists them.
        source: a study, or the folders of runs, a sweep or a comparison.
        changes: matplotlib settings, with "_" for the first ".": ``font_size=10``.

    Raises:
        SimflError: there is no such figure, or nothing to draw in it.
    """
    from simfl.report.figures import FIGURES, broken

    lame = {problem.name: problem for problem in broken()}
    if name in lame:
        raise SimflError(f"figure {lame[name]}")
    if name not in FIGURES:
        raise SimflError(f"no figure '{name}'{suggestion(name, FIGURES)} (one of {', '.join(FIGURES)})")
    if not isinstance(source, Study):
        source = read_study([source] if isinstance(source, (str, Path)) else source)
    return FIGURES[name](source, **changes)


def figure(source: Study | Path | str | Sequence[Path | str], name: str, **changes: Any) -> "Figure":
    """The figure alone; see :func:`draw`."""
    return draw(name, source, **changes)[0]
