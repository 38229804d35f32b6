"""What a swept number does to the measures; and what two do together, a cell for every pair of their values."""

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.axes import labels
from simfl.report.figures.base import BANDS, THIN, Drawn, NothingToDraw, bound, figure
from simfl.report.measures import StudyMeasure, UnitScale, seed_column, with_values
from simfl.report.study import Study, most_clients, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


SHOWN = ("test_accuracy", "time_s", "mean_cardinality", "privacy_semi_strong")
MOST_LINES = 14


@figure("effect", "Effect of the swept parameter", "Learning", wide=True)
def draw(study: Study) -> Drawn:
    """Each measure against the number that was swept, one line for each choice of everything else. Whiskers are 95 %
    confidence intervals over the seeds; of fewer than five seeds, and of fewer than ten where a run has collapsed, thin
    lines are the seeds themselves.
    """
    if not study.numeric_axes:
        raise NothingToDraw("needs a sweep over a number")
    swept = max(study.numeric_axes, key=lambda axis: len({group.values[axis] for group in study.groups}))
    table = _table(study, swept)
    chosen = [m for m in with_values(study) if m.name in SHOWN]
    others = list(dict.fromkeys(table.others))
    fig, grid = style.figure(1, len(chosen), wide=True, height_in=2.9)
    for axes, measure in zip(grid[0], chosen, strict=True):
        scale = measure.scale(table[measure.name])
        for place, other in enumerate(others):
            look = style.look(place if len(others) <= MOST_LINES else None)
            look |= {"marker": style.MARKERS[place % len(style.MARKERS)], "label": other or "_"}
            _line(axes, table[table.others == other].sort_values(swept), swept, measure, scale, look)
        style.title(axes, _title(measure, scale))
        axes.set_xlabel(swept.rsplit(".", 1)[-1].replace("_", " "))
        _spread(axes, sorted(set(table[swept])))
        if measure.name.startswith("privacy"):
            axes.yaxis.get_major_locator().set_params(integer=True)
        low, high = axes.get_ylim()
        if high - low < 0.2 * abs(high):
            axes.set_ylim(min(0.9 * low, low), 1.1 * high)
        most = {"share": 1.0, "seconds": math.inf}.get(measure.column.unit, most_clients(study))
        bound(axes.yaxis, 0.0, most / scale.divisor)
    style.legend(fig, grid[0][0], on_page=True)
    return fig, table


def _line(
    axes: "Axes", rows: "DataFrame", swept: str, measure: StudyMeasure, scale: UnitScale, look: dict[str, Any]
) -> None:
    """Means along the swept number with their intervals or, of few seeds, a thin line for each seed."""
    seeds = [column for column in rows if str(column).startswith(f"{measure.name}_{seed_column('')}")]
    for column in seeds:
        axes.plot(rows[swept], rows[column] / scale.divisor, **look | THIN | {"marker": "", "label": "_"})
    half = rows[f"{measure.name}_ci"] / scale.divisor
    axes.errorbar(
        rows[swept], rows[measure.name] / scale.divisor, 
        yerr=None if seeds or not np.isfinite(half).all() else half, markeredgecolor=style.PAPER, markeredgewidth=0.5,
        elinewidth=0.8, **look,
    )  # fmt: skip


def _table(study: Study, swept: str) -> "DataFrame":
    from pandas import DataFrame

    others = _others(study, swept)
    few_lines = len(set(others)) <= BANDS
    rows = []
    for group, other in zip(study.groups, others, strict=True):
        row: JsonObject = {"others": other, swept: number(group.values[swept])}
        for measure in with_values(study):
            if measure.name in SHOWN:
                interval = measure.over(group)
                row |= {measure.name: interval.estimate, f"{measure.name}_ci": interval.half_width}
                for seed, value in measure.by_seed(group).items() if measure.shows_dots(group) and few_lines else ():
                    row[f"{measure.name}_{seed_column(seed)}"] = value
        rows.append(row)
    return DataFrame(rows)


def _others(study: Study, *swept: str) -> list[str]:
    """Each group's choice of everything that is not swept, in words."""
    return labels([axis for axis in study.axes if axis not in swept], [group.values for group in study.groups])


def _title(measure: StudyMeasure, scale: UnitScale) -> str:
    return measure.noun[:1].upper() + measure.noun[1:] + (f" ({scale.unit})" if scale.unit else "")


def _spread(axes: "Axes", values: list[float]) -> None:
    """Ticks at the swept values; a logarithmic scale where they are multiples rather than steps."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if values[0] > 0 and values[-1] / values[0] >= 8:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(values) <= 8:
        axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


MOST_PANELS = 12
ACROSS = 2
STRONGEST = 0.6
"""Opacity of the cell of the largest value: what is written on it stays readable, on white paper and on black."""

SMALLEST = 4.5
"""Points of the smallest letters; in cells too narrow for them nothing is written."""


UNITS = {"_bytes_per_s": "bytes/s", "_bytes": "bytes", "_s": "s"}
"""What the endings of keys say."""


class Swept(NamedTuple):
    """A swept number: its key, and its values as written, ascending."""

    key: str
    values: list[str]

    @property
    def name(self) -> str:
        word = self.key.rsplit(".", 1)[-1]
        ending = next((ending for ending in UNITS if word.endswith(ending)), "")
        unit = f" ({UNITS[ending]})" if ending else ""
        return word.removesuffix(ending).replace("_", " ") + unit


@figure("heat_map", "Two swept numbers", "Learning", wide=True)
def draw_heat_map(study: Study) -> Drawn:
    """Mean over the seeds for every pair of values of the two numbers that were swept, one panel for each measure and
    each choice of everything else: the larger the value, the stronger the colour, the same in all panels of a measure.
    A cell without a value says why.
    """
    from pandas import DataFrame

    swept = sorted((_swept(study, key) for key in study.numeric_axes), key=lambda one: -len(one.values))
    if len(swept) < 2:
        raise NothingToDraw("needs a sweep over two numbers")
    across, up = swept[:2]
    known = [measure for measure in with_values(study) if measure.name in SHOWN]
    table = DataFrame(_rows(study, across, up, known))
    panels = list(table.groupby(["measure", "others"], sort=False))[:MOST_PANELS]
    rows, columns = -(-len(panels) // ACROSS), min(len(panels), ACROSS)
    fig, grid = style.figure(rows, columns, wide=True, height_in=rows * (0.8 + 0.26 * max(4, len(up.values))))
    by_name = {measure.name: measure for measure in known}
    ends = table.groupby("measure")["mean"].agg(["min", "max"])
    for axes, ((name, others), cells) in zip(grid.flat, panels, strict=False):
        _panel(axes, cells, across, up, by_name[name], others, tuple(ends.loc[name]))
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    return fig, table


def _swept(study: Study, key: str) -> Swept:
    values = {group.values[key] for group in study.groups} | {member.values[key] for member in study.members}
    return Swept(key, sorted(values, key=lambda text: (number(text) or 0.0, text)))


def _rows(study: Study, across: Swept, up: Swept, known: list[StudyMeasure]) -> list[JsonObject]:
    """A row for every cell of every panel, with the mean, or the reason why there is none."""
    others = _others(study, across.key, up.key)
    at = {(other, g.values[across.key], g.values[up.key]): g for other, g in zip(others, study.groups, strict=True)}
    rows: list[JsonObject] = []
    for measure, other, y, x in product(known, dict.fromkeys(others), up.values, across.values):
        group = at.get((other, x, y))
        mean = measure.over(group) if group else None
        missing = "" if mean and mean.count else "no value" if group else _why(study, across, up, x, y)
        rows.append({
            "measure": measure.name, "others": other, across.key: x, up.key: y,
            "mean": mean.estimate if mean else np.nan, "seeds": mean.count if mean else 0, "missing": missing,
        })  # fmt: skip
    return rows


def _why(study: Study, across: Swept, up: Swept, x: str, y: str) -> str:
    """Why there is no finished run of a pair of values: what became of those that were planned."""
    states = [m.status for m in study.members if (m.values[across.key], m.values[up.key]) == (x, y) and not m.run]
    return "failed" if "failed" in states else "not finished" if states else "no run"


def _panel(
    axes: "Axes",
    cells: "DataFrame",
    across: Swept,
    up: Swept,
    measure: StudyMeasure,
    others: str,
    ends: tuple[Any, ...],
) -> None:
    """One measure and choice: cells coloured from the smallest to the largest value of all choices, and written on."""
    values = cells["mean"].to_numpy(dtype=np.float64).reshape(len(up.values), len(across.values))
    scale = measure.scale(cells["mean"])
    low, high = ends
    image = np.empty((*values.shape, 4))
    image[..., :3] = style.CELL
    share = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
    image[..., 3] = np.where(np.isnan(values), 0.0, STRONGEST * (0.1 + 0.9 * share))
    axes.imshow(image, origin="lower", aspect="auto", interpolation="none")
    texts = [missing or scale.text(mean) for mean, missing in zip(cells["mean"], cells["missing"], strict=True)]
    size = _letters(axes, len(across.values), texts)
    for place, (text, missing) in enumerate(zip(texts, cells["missing"], strict=True)):
        y, x = divmod(place, len(across.values))
        if size:
            axes.text(x, y, text, ha="center", va="center", fontsize=size, color=style.MUTED if missing else style.INK)
    axes.grid(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(len(across.values)), across.values)
    axes.set_yticks(range(len(up.values)), up.values)
    axes.set(xlabel=across.name, ylabel=up.name)
    style.title(axes, _title(measure, scale) + (f": {others}" if others else ""))


def _letters(axes: "Axes", columns: int, texts: list[str]) -> float:
    """The size, in points, at which every text fits into a cell; 0 where it would be too small to be read."""
    whole: Any = axes.figure
    panels = min(ACROSS, len(whole.axes))
    room_pt = 72 * (whole.get_figwidth() / panels - 0.7) / columns
    size = min(7.5, 0.95 * room_pt / (style.LETTER * max(map(len, texts))))
    return size if size >= SMALLEST else 0.0
