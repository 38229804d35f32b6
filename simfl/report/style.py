"""How figures look: colours that colour-blind readers tell apart, line styles that survive a grey printer, small type.

Colours: Okabe and Ito, "Color Universal Design" (2008), without its yellow, which white paper swallows; for an eighth
and ninth group, wine and olive of Tol's "muted" scheme (SRON/EPS/TN/09-002, 2021).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from simfl.core.errors import SimflError, suggestion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simfl.report.study import Group

INK, MUTED, LINE, PAPER = "#1c2430", "#667080", "#e3e1db", "#fffffe"
"""Text; axes and asides; grid; background. The page replaces each by its own colour for light and dark."""

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c2430", "#882255", "#999933")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.3)),
    (0, (6, 1.6, 1.2, 1.6)),
    (0, (9, 2)),
    (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)),
    (0, (1.2, 3)),
)
MARKERS = "os^DvPXh"

CELL = (0x1F / 255, 0x7F / 255, 0xC4 / 255)
"""A blue for cells of an image that stands out from white and from black paper, red, green, blue."""

OWN = "own-names"
"""Marks a legend that names something else than the study's groups."""

NAME = 48
"""Letters of a name in a legend."""

LETTER = 0.6
"""Width of a letter, as a share of the font's size."""

LETTER_IN = 0.07
"""Width of a letter of a title."""

MARGIN = 3
"""Letters between the titles of neighbouring panels."""

FOOT_PT, FOOT_LETTER_IN, FOOT_LINE_IN = 6.5, 0.052, 0.11
"""Of sentences below a figure: the size of their letters, a letter's width, a line's height."""

WIDTH_IN = 4.2
WIDE_IN = 8.6

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same letters on every machine
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlecolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "figure.figsize": (WIDTH_IN, 2.6),
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "hatch.linewidth": 0.5,
    "hatch.color": MUTED,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "simfl",
    "svg.fonttype": "path",
    "path.simplify": False,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "timezone": "UTC",
}


@contextmanager
def settings(**changes: object) -> Iterator[None]:
    """matplotlib with simfl's settings, whatever the user's are; nothing of it stays.

    Raises:
        SimflError: matplotlib has no such setting, or not with such a value.
    """
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        all_of: Any = SETTINGS | {key.replace("_", ".", 1): value for key, value in changes.items()}
        for key in all_of.keys() - matplotlib.rcParams.keys():
            hint = suggestion(key, matplotlib.rcParams) or ", e.g. font_size=8 or figure_figsize=(7, 3)"
            raise SimflError(
                f"no argument of figures, and no setting of matplotlib: {key.replace('.', '_', 1)!r}{hint}"
            )
        try:
            matplotlib.rcParams.update(all_of)
        except ValueError as error:
            raise SimflError(f"setting of matplotlib: {error}") from None
        yield


def figure(rows: int = 1, columns: int = 1, *, wide: bool = False, height_in: float = 2.6, **more: Any) -> Any:
    """A figure that no window system knows of, and its axes as an array of shape (rows, columns).

    The setting ``figure.figsize`` gives all figures, wide or not, another width; narrow ones stay high enough to be
    read.
    """
    from matplotlib import rcParams
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from simfl.report.notebook_figure import NotebookFigure

    width_in, given_in = WIDE_IN if wide else WIDTH_IN, rcParams["figure.figsize"][0]
    if given_in != WIDTH_IN:
        height_in = min(height_in, given_in * max(0.62, height_in / width_in))
        width_in = given_in
    fig = NotebookFigure(figsize=(width_in, height_in))
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, squeeze=False, **more)


def look(number: int | None) -> dict[str, Any]:
    """Colour and dashes of the group of a number; the same in every figure."""
    if number is None:
        return {"color": MUTED, "linestyle": "-", "linewidth": 0.6, "alpha": 0.35, "zorder": 1.5}
    return {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[number % len(DASHES)]}


def marker(number: int | None, points: int) -> dict[str, Any]:
    """A few markers along a line of so many points, at other places for each group."""
    if number is None or points < 2:
        return {}
    every = max(points / 5, 1)
    places = sorted({min(points - 1, int((k + 0.15 + number * 0.37 % 0.7) * every)) for k in range(5)})
    return {
        "marker": MARKERS[number % len(MARKERS)],
        "markevery": places,
        "markeredgecolor": PAPER,
        "markeredgewidth": 0.5,
    }


def line_style(group: "Group", points: int) -> dict[str, Any]:
    """All of a group's line style, with its name for the legend and for the page."""
    return {
        **look(group.number),
        **marker(group.number, points),
        "label": group.label if group.number is not None else "_",
        "gid": tag(group),
    }


def tag(group: "Group") -> str:
    """The id by which the page knows what belongs to a group."""
    return f"group-{'other' if group.number is None else group.number}"


def legend(fig: "Figure", axes: "Axes", on_page: bool = False) -> None:
    """Names above the axes, in as many columns as fit; none for a single line.

    On the page, too, where they name something else than the study's groups.
    """
    handles, names = axes.get_legend_handles_labels()
    if len(handles) > 1:
        names = distinct(names)
        widest = max(len(line) for name in names for line in name.split("\n"))
        columns = min(len(names), max(1, int(fig.get_figwidth() / (0.42 + 0.062 * widest))))
        lines = -(-len(names) // columns) * max(name.count("\n") + 1 for name in names)
        fig.set_figheight(fig.get_figheight() + 0.15 * max(0, lines - 3))
        box = fig.legend(handles, names, loc="outside upper left", ncols=columns, borderaxespad=0.2)
        box.set_gid(OWN if on_page else None)


def distinct(names: list[str]) -> list[str]:
    """Names short enough for a legend: long ones lose their middle, or their beginning, as long as that leaves all of
    them different; else they are written in several lines.
    """
    half = NAME // 2
    abbreviations: tuple[Callable[[str], str], ...] = (
        lambda name: f"{name[:half]}…{name[1 - half :]}",
        lambda name: f"…{name[1 - NAME :]}",
    )
    for short in abbreviations:
        shortened = [name if max(map(len, name.split("\n"))) <= NAME else short(name) for name in names]
        if len(set(shortened)) == len(set(names)):
            return shortened
    return ["\n".join(wrap(name, NAME)) for name in names]


def title(axes: "Axes", text: str, **more: Any) -> None:
    """A panel's title, in as many lines as its width asks for."""
    place: Any = axes.get_subplotspec()
    columns = place.get_gridspec().ncols if place else 1
    whole: Any = axes.figure
    letters = int(whole.get_figwidth() / columns / LETTER_IN) - MARGIN
    axes.set_title("\n".join(wrap(text, max(letters, 8))), **more)


def footnote(fig: "Figure", lines: Iterable[str]) -> None:
    """Sentences below everything else, wrapped at the figure's width."""
    letters = int(fig.get_figwidth() / FOOT_LETTER_IN)
    written = [line for text in lines for line in wrap(text, letters, break_on_hyphens=False)]
    if written:
        fig.set_figheight(fig.get_figheight() + FOOT_LINE_IN * len(written))
        label = f"{fig.get_supxlabel()}\n" if fig.get_supxlabel() else ""
        fig.supxlabel(label + "\n".join(written), fontsize=FOOT_PT, color=MUTED, ha="left", x=0.01)


def note(axes: "Axes", text: str) -> None:
    """An aside in the upper right corner of the axes."""
    axes.text(1.0, 1.0, text, transform=axes.transAxes, ha="right", va="bottom", color=MUTED, fontsize=7)
