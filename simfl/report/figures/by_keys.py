"""One measure against a key that varies, or against another measure: colours for some keys, a panel for others."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw
from simfl.report.latex import chosen_measures
from simfl.report.measures import BAND_SEEDS, StudyMeasure
from simfl.report.pivot import axis_called, name_of, refuse_others, those
from simfl.report.study import Study, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ACROSS = 3
"""Panels side by side."""


def draw_by(
    study: Study, y: str, x: str, color: Sequence[str] = (), panels: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
) -> Drawn:  # fmt: skip
    """Means over the seeds with the 95 % intervals of y; of fewer than five seeds, and
    of fewer than ten where a run has collapsed, small dots are the seeds themselves.

    Args:
        study: what ``simfl.report.read_study`` returned.
        y: name of a measure.
        x: a key that varies, or the name of another measure.
        color: keys whose values are told by colours; default: all that vary and are neither x nor panels.
        panels: keys with a panel for each of their values.
        where: values of other keys.

    Raises:
        SimflError: a key does not vary, or no run has such a measure or value.
        NothingToDraw: no configuration is left.
    """
    from pandas import DataFrame

    is_key = any(axis == x or axis.endswith(f".{x}") for axis in study.axes)
    measures = chosen_measures(study, [y] if is_key else [y, x])
    beside = [axis_called(study, key) for key in panels]
    fixed = {axis_called(study, key): value for key, value in (where or {}).items()}
    named = {*beside, *fixed, *([axis_called(study, x)] if is_key else [])}
    colors = [axis_called(study, key) for key in color] or [axis for axis in study.axes if axis not in named]
    rows, groups = [], those(study, fixed)
    refuse_others(study, groups, [*named, *colors], "make it a color or panels")
    for group in groups:
        row: JsonObject = {"panel": name_of(group, beside), "color": name_of(group, colors)}
        if is_key:
            row["x"] = group.values[axis_called(study, x)]
        for name, measure in zip(("y", "x"), measures, strict=False):
            mean = measure.over(group)
            row |= {name: mean.estimate, f"{name}_half": mean.half_width, "seeds": mean.count}
            if mean.count < BAND_SEEDS or mean.lower is None:
                row |= {f"{name}_seed_{seed}": value for seed, value in measure.by_seed(group).items()}
        rows.append(row)
    table = DataFrame(rows)
    if table["y"].isna().all():
        raise NothingToDraw("no configuration that is left has such a measure")
    return _panels(table, measures, x.rsplit(".", 1)[-1].replace("_", " ") if is_key else ""), table


def _panels(table: "DataFrame", measures: Sequence[StudyMeasure], key: str) -> Any:
    """A panel for each of the values, with the same axes."""
    names = list(dict.fromkeys(table["panel"]))
    wide = min(ACROSS, len(names))
    lines = -(-len(names) // wide)
    fig, grid = style.figure(lines, wide, wide=wide > 1, height_in=2.8 * lines, sharex=True, sharey=True)
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
                at = np.array([float(text) if numeric else texts.index(text) for text in rows["x"]])
            else:
                at = rows["x"].to_numpy() / scales[1].divisor
            _points(axes, rows, at, place, color, scales[0].divisor, joined=bool(key and numeric))
        style.title(axes, name)
        axes.set(xlabel=key or labels[-1], ylabel=labels[0])
        if key and not numeric:
            axes.set_xticks(range(len(texts)), texts)
    for axes in grid.flat[len(names) :]:
        axes.remove()
    style.legend(fig, grid.flat[0], on_page=True)
    return fig


def _points(
    axes: "Axes", rows: "DataFrame", at: Any, place: int, color: str, divisor: float, joined: bool
) -> None:  # fmt: skip
    look = style.look(place) | {"marker": style.MARKERS[place % len(style.MARKERS)], "label": color or "_"}
    order = np.argsort(at, kind="stable")
    few = bool(((rows["seeds"] < BAND_SEEDS) | rows["y_half"].isna()).any())
    for column in rows.columns[rows.columns.str.startswith("y_seed_")] if few else ():
        axes.plot(at[order], rows[column].to_numpy()[order] / divisor, color=look["color"], marker=".", alpha=0.5,
                  linestyle="none")  # fmt: skip
    half = rows["y_half"].to_numpy()[order] / divisor
    axes.errorbar(at[order], rows["y"].to_numpy()[order] / divisor, yerr=None if few else half, elinewidth=0.8,
                  markeredgecolor=style.PAPER, markeredgewidth=0.5,
                  **look | ({} if joined else {"linestyle": "none"}))  # fmt: skip
