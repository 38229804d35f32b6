"""One measure against a key that varies, another measure or the rounds: colours for some keys, a panel for others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.figures.base import AXES, Drawn, NothingToDraw, line, tables
from simfl.report.measures import BAND_SEEDS, StudyMeasure
from simfl.report.study import Group, Study, number
from simfl.report.study_tables import BESIDE, axis_called, chosen_measures, name_of, refuse_others, those

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ACROSS = 3
"""Panels side by side."""

AMOUNTS, FAR = {"seconds", "bytes"}, 30
"""Units on a logarithmic scale where the largest mean is so many times the least."""

CURVES = {"round": "round", "time": "time_s"}
"""What x may be of curves, and the column of it."""

DODGE = 0.1
"""Distance of colours where x has words."""

MOST_TICKS = 8
"""Values of a key that stand below the axis, each at its place."""


def draw_by(
    study: Study, y: str, x: str, color: Sequence[str] = (), panels: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
) -> Drawn:  # fmt: skip
    """Means over the seeds with the 95 % intervals of y; of fewer than five seeds, and
    of fewer than ten where a run has collapsed, small dots are the seeds themselves.

    Args:
        study: what ``simfl.report.read_study`` returned.
        y: name of a measure.
        x: a key that varies, the name of another measure, or ``round`` or ``time`` (simulated seconds) for curves.
        color: keys whose values are told by colours; default: all that vary and are neither x nor panels.
        panels: keys with a panel for each of their values.
        where: values of other keys.

    Raises:
        SimflError: a key does not vary, or no run has such a measure or value.
        NothingToDraw: no configuration is left.
    """
    from pandas import DataFrame

    is_key = any(axis == x or axis.endswith(f".{x}") for axis in study.axes)
    curves = x in CURVES and not is_key
    measures = chosen_measures(study, [y] if is_key or curves else [y, x])
    beside = [axis_called(study, key) for key in panels]
    fixed = {axis_called(study, key): value for key, value in (where or {}).items()}
    named = {*beside, *fixed, *([axis_called(study, x)] if is_key else [])}
    colors = [axis_called(study, key) for key in color] or [axis for axis in study.axes if axis not in named]
    rows, groups = [], those(study, fixed)
    order = {key: list(dict.fromkeys(group.values[key] for group in groups)) for key in beside}  # panel by panel
    groups = sorted(groups, key=lambda group: [values.index(group.values[key]) for key, values in order.items()])
    refuse_others(study, groups, [*named, *colors], "make it a color or panels")
    if curves:
        return _curves(study, groups, measures[0], CURVES[x], beside, colors)
    for group in groups:
        row: JsonObject = {"panel": name_of(group, beside), "color": name_of(group, colors)}
        if is_key:
            row["x"] = group.values[axis_called(study, x)]
        for name, measure in zip(("y", "x"), measures, strict=False):
            mean = measure.over(group)
            row |= {name: mean.estimate, f"{name}_half": mean.half_width, "seeds": mean.count}
            row |= {f"{name}_seed_{seed}": value for seed, value in measure.by_seed(group).items()}
        rows.append(row)
    table = DataFrame(rows)
    if table["y"].isna().all():
        raise NothingToDraw("no configuration that is left has such a measure")
    return _panels(table, measures, x.rsplit(".", 1)[-1].replace("_", " ") if is_key else ""), table


def _curves(
    study: Study, groups: Sequence[Group], measure: StudyMeasure, x: str, beside: Sequence[str], colors: Sequence[str]
) -> Drawn:
    """A column of the rounds against rounds or simulated time, a line for each colour."""
    table = tables(study, measure.name, x)
    of = {group.label: (name_of(group, beside), name_of(group, colors)) for group in groups}
    table = table[table["group"].isin(of)].reset_index(drop=True)
    table.insert(0, "panel", [of[label][0] for label in table["group"]])
    table.insert(1, "color", [of[label][1] for label in table["group"]])
    panels, names = (list(dict.fromkeys(pair[place] for pair in of.values())) for place in (0, 1))
    fig, grid = _grid(panels)
    scale = measure.scale(table["mean"])
    scaled = table.copy()
    numbers = scaled.columns.difference(["panel", "color", "group", "runs", x])
    scaled[numbers] = scaled[numbers].astype(float) / scale.divisor
    for axes, panel in zip(grid.flat, panels, strict=False):
        for place, name in enumerate(names):
            rows = scaled[(scaled["panel"] == panel) & (scaled["color"] == name)]
            if len(rows):
                line(axes, rows, place, name, x)
        axes.set_xlabel("")
        style.title(axes, panel)
    _say_axes(grid, len(panels), AXES[x], measure.label + (f" ({scale.unit})" if scale.unit else ""))
    style.legend(fig, grid.flat[0], on_page=True)
    return fig, table


def _panels(table: "DataFrame", measures: Sequence[StudyMeasure], key: str) -> Any:
    """A panel for each of the values, with the same axes."""
    names = list(dict.fromkeys(table["panel"]))
    fig, grid = _grid(names)
    scales = [measure.scale(table[name]) for name, measure in zip(("y", "x"), measures, strict=False)]
    labels = [measure.label + (f" ({scale.unit})" if scale.unit else "")
              for measure, scale in zip(measures, scales, strict=True)]  # fmt: skip
    texts = list(dict.fromkeys(table["x"])) if key else []
    numeric = all(number(text) is not None for text in texts)
    colors = list(dict.fromkeys(table["color"]))
    for axes, name in zip(grid.flat, names, strict=False):
        for place, color in enumerate(colors):
            rows = table[(table["panel"] == name) & (table["color"] == color)]
            if key:
                shift = 0.0 if numeric else DODGE * (place - (len(colors) - 1) / 2)
                at = np.array([float(text) if numeric else texts.index(text) + shift for text in rows["x"]])
            else:
                at = rows["x"].to_numpy() / scales[1].divisor
            _points(axes, rows, at, place, color, [scale.divisor for scale in scales], joined=bool(key and numeric))
        style.title(axes, name)
        if key and len(texts) <= MOST_TICKS:
            axes.set_xticks([float(text) for text in texts] if numeric else range(len(texts)), texts)
        if key and not numeric:
            axes.set_xlim(-0.5, len(texts) - 0.5)
    for name, measure in zip(("y", "x"), measures, strict=False):
        if measure.column.unit in AMOUNTS and table[name].min() > 0 and table[name].max() > FAR * table[name].min():
            _log(grid, name)
    _say_axes(grid, len(names), key or labels[-1], labels[0])
    style.legend(fig, grid.flat[0], on_page=True)
    return fig


def _grid(names: Sequence[str]) -> Any:
    """A figure with as many panels, which share their axes."""
    wide = _wide(names)
    lines = -(-len(names) // wide)
    return style.figure(lines, wide, wide=wide > 1, height_in=2.8 * lines, sharex=True, sharey=True)


def _wide(names: Sequence[str]) -> int:
    """Panels side by side: those with the same value of the first key, where there are several, else at most three."""
    of_first = Counter(name.partition(BESIDE)[0] for name in names)
    if BESIDE in names[0] and len({*of_first.values()}) == 1 and 1 < of_first.total() / len(of_first) <= ACROSS:
        return of_first.total() // len(of_first)
    return 2 if len(names) == 4 else min(ACROSS, len(names))


def _log(grid: Any, name: str) -> None:
    """Makes an axis of all panels logarithmic, with plain numbers."""
    from matplotlib.ticker import FuncFormatter

    grid[0, 0].set(**{f"{name}scale": "log"})
    for axes in grid.flat:
        (axes.yaxis if name == "y" else axes.xaxis).set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _say_axes(grid: Any, count: int, x: str, y: str) -> None:
    """Names y on the left, and x with its numbers below the last panel of each column; of the rest nothing is left."""
    wide = grid.shape[1]
    for place, axes in enumerate(grid.flat):
        if place >= count:
            axes.remove()
        elif place + wide >= count:
            axes.set_xlabel(x)
            axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(y)


def _points(
    axes: "Axes", rows: "DataFrame", at: Any, place: int, color: str, divisors: Sequence[float], joined: bool
) -> None:
    look = style.look(place) | {"marker": style.MARKERS[place % len(style.MARKERS)], "label": color or "_"}
    order = np.argsort(at, kind="stable")
    few = bool(((rows["seeds"] < BAND_SEEDS) | rows["y_half"].isna()).any())
    for column in rows.columns[rows.columns.str.startswith("y_seed_")] if few else ():
        across = at if len(divisors) == 1 else rows[f"x{column[1:]}"].to_numpy() / divisors[1]  # its own x
        up = rows[column].to_numpy() / divisors[0]
        axes.plot(across[order], up[order], color=look["color"], marker=".", alpha=0.5, linestyle="none")
    half = rows["y_half"].to_numpy()[order] / divisors[0]
    axes.errorbar(at[order], rows["y"].to_numpy()[order] / divisors[0], yerr=None if few else half, elinewidth=0.8,
                  markeredgecolor=style.PAPER, markeredgewidth=0.5,
                  **look | ({} if joined else {"linestyle": "none"}))  # fmt: skip
