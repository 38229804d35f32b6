"""What is done with finished runs: ``plot`` and ``attack``, with the arguments of the commands."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simfl.experiments.attack.after_run import Replayed

WIDTHS_IN = {"column": 3.4, "page": 7.0}
"""Widths of one and of two columns of a paper, inches."""
FONTS = {"sans": {}, "serif": {"font_family": "STIXGeneral", "mathtext_fontset": "stix"}}


def plot(
    folders: Path | str | Sequence[Path | str],
    figure: str | None = None,
    *,
    y: str | None = None,
    x: str | None = None,
    color: Sequence[str] = (),
    panels: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
    output: Path | str | None = None,
    width: str | None = None,
    font: str = "sans",
) -> "Figure":
    """One figure of a run, a sweep or a comparison, as ``simfl plot`` draws it.

    Args:
        folders: one or several folders of results.
        figure: its name; ``simfl plot --help`` lists them. Or ``y`` and ``x``:
        y: a measure, e.g. ``test_accuracy``.
        x: a key that varies, another measure, or ``round`` or ``time`` for curves.
        color, panels: keys that are told by colours, and those with a panel for each value.
        where: values of other keys.
        output: a .pdf, .svg or .png file to write, with the data in a .csv file beside it.
        width: ``column`` or ``page`` of a paper.
        font: ``sans`` or ``serif``.

    Raises:
        SimflError: there is no such figure, key or format, or nothing to draw.
    """
    from simfl.report import draw, draw_by, style
    from simfl.report.saving import save

    if (figure is None) == (x is None or y is None) or (figure and (x or y or color or panels or where)):
        raise SimflError("give the name of a figure, or x and y")
    size = {"figure_figsize": (WIDTHS_IN[width], WIDTHS_IN[width])} if width else {}
    changes: dict[str, object] = {**FONTS[font], **size}
    if figure is not None:
        fig, table = draw(figure, folders, **changes)
    else:
        fig, table = draw_by(folders, str(y), str(x), color=color, panels=panels, where=where, **changes)
    if output is not None:
        with style.settings(**FONTS[font]):
            save(fig, table, Path(output))
    return fig


def attack(
    folder: Path | str,
    name: str,
    overrides: Iterable[str] = (),
    *,
    rounds: tuple[int, int | None] = (0, None),
    trust_plugins: bool = False,
) -> "Replayed":
    """Attacks a finished run with what its server saw, as ``simfl attack`` does.

    Args:
        folder: of a run made with ``trace: aggregates``.
        name: one of ``simfl list attack``.
        overrides: its fields, ``["field=value"]``.
        rounds: the window, first and behind the last; None = to the end.
        trust_plugins: execute plugin files that the results name.

    Raises:
        SimflError: there is no such run, record, window or attack.
    """
    from simfl.experiments.attack import after_run

    return after_run.attack(Path(folder), name, tuple(overrides), *rounds, trust_plugins=trust_plugins)
