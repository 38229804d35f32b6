"""Results as figures and as one HTML page. Reads ``results/`` and nothing else.

In a notebook::

    from simfl import report

    study = report.read_study(["results/quickstart"])
    fig, table = report.draw("accuracy", study)
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError, suggestion
from simfl.report.study import Group, PlannedRun, Run, Study
from simfl.report.study_reader import read_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["Group", "PlannedRun", "Run", "Study", "draw", "draw_by", "figure", "read_study", "write"]


def draw(name: str, source: Study | Path | str | Sequence[Path | str], **changes: object) -> "tuple[Figure, DataFrame]":
    """A figure as a matplotlib object, and the pandas table of everything drawn in it.

    Args:
        name: of the figure, e.g. ``accuracy``; ``simfl plot --help`` lists them.
        source: a study, or the folders of runs, a sweep or a comparison.
        changes: matplotlib settings, with "_" for the first ".": ``font_size=10``.

    Raises:
        SimflError: there is no such figure, or nothing to draw in it.
    """
    from simfl.report.figures import FIGURES, broken
    from simfl.report.figures.base import NothingToDraw

    lame = {problem.name: problem for problem in broken()}
    if name in lame:
        raise SimflError(f"figure {lame[name]}")
    if name not in FIGURES:
        from simfl.report.plugin_figures import missing_figures_hint

        hint = ""
        with suppress(SimflError):  # what is wrong with the results is not what is asked for
            hint = missing_figures_hint(_study(source), name)
        hint = f"; {hint}" if hint else ""
        raise SimflError(f"no figure '{name}'{suggestion(name, FIGURES)} (one of {', '.join(sorted(FIGURES))}){hint}")
    try:
        return FIGURES[name](_study(source), **changes)
    except NothingToDraw as error:
        raise NothingToDraw(f"figure '{name}': {error}") from None


def draw_by(
    source: Study | Path | str | Sequence[Path | str],
    y: str,
    x: str,
    *,
    color: Sequence[str] = (),
    panels: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
    **changes: object,
) -> "tuple[Figure, DataFrame]":
    """One measure against a key that varies, another measure or the rounds, and the table of everything drawn in it.

    Args:
        source: a study, or the folders of runs, a sweep or a comparison.
        y: name of a measure, e.g. ``test_accuracy``.
        x: a key that varies (the last part of it is enough), a measure, or ``round`` or ``time`` for curves.
        color: keys whose values are told by colours; default: all that are not named otherwise.
        panels: keys with a panel for each of their values.
        where: values of other keys.
        changes: matplotlib settings, as for :func:`draw`.

    Raises:
        SimflError: no such key, value or measure.
    """
    from simfl.report.figures.base import Kind
    from simfl.report.figures.by_keys import draw_by as drawn_by

    kind = Kind("by_keys", "", "", "", True, lambda study: drawn_by(study, y, x, color, panels, where))
    return kind(_study(source), **changes)


def _study(source: Study | Path | str | Sequence[Path | str]) -> Study:
    if isinstance(source, Study):
        return source
    return read_study([source] if isinstance(source, (str, Path)) else source)


def figure(source: Study | Path | str | Sequence[Path | str], name: str, **changes: object) -> "Figure":
    """The figure alone; see :func:`draw`."""
    return draw(name, source, **changes)[0]


def write(
    source: Study | Path | str | Sequence[Path | str], output: Path | str | None = None, margin: float = 0.01
) -> Path:
    """Writes one self-contained HTML page, as ``simfl report`` does; its path.

    Args:
        source: a study, or the folders of runs, a sweep or a comparison.
        output: where the page goes; default: ``report.html`` in the folder, or here if there are several.
        margin: loss of accuracy that does not matter, a share: nothing is recommended that may lose more.

    Raises:
        SimflError: there are no results, or the file is one of them.
    """
    from simfl.core.storage.disk import write_atomically
    from simfl.report.html_page import page
    from simfl.results.file_names import refuse_result_files

    single = Path(source) if isinstance(source, (str, Path)) else Path()
    target = Path(output) if output else single / "report.html"
    refuse_result_files(target)
    write_atomically(target, page(_study(source), margin).encode())
    return target
