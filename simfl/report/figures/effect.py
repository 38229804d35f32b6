"""What a swept number does to the measures."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.axes import labels
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import BANDS, THIN, bound
from simfl.report.measures import StudyMeasure, UnitScale, with_values
from simfl.report.seed_intervals import few_seeds, seed_column
from simfl.report.study import Study, most_clients, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

SHOWN = ("test_accuracy", "time_s", "mean_cardinality", "privacy_semi_strong")
MOST_LINES = 14


@figure("effect", "Effect of the swept parameter", "Learning", wide=True)
def draw(study: Study) -> Drawn:
    """Each measure against the number that was swept, one line for each choice of everything else. Whiskers are 95 %
    confidence intervals over the seeds; of fewer than five seeds, thin lines are the seeds themselves.
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
        noun = measure.noun[:1].upper() + measure.noun[1:]
        style.title(axes, noun + (f" ({scale.unit})" if scale.unit else ""))
        axes.set_xlabel(swept.rsplit(".", 1)[-1].replace("_", " "))
        _spread(axes, sorted(set(table[swept])))
        if measure.name.startswith("privacy"):
            axes.yaxis.get_major_locator().set_params(integer=True)
        low, high = axes.get_ylim()
        if high - low < 0.2 * abs(high):
            axes.set_ylim(min(0.9 * low, low), 1.1 * high)
        bound(axes.yaxis, 0.0, _most(study, measure) / scale.divisor)
    style.legend(fig, grid[0][0], on_page=True)
    return fig, table


def _line(
    axes: "Axes", rows: "DataFrame", swept: str, measure: StudyMeasure, scale: UnitScale, look: dict[str, Any]
) -> None:
    """Means along the swept number with their intervals or, of few seeds, a thin line for each seed."""
    seeds = [column for column in rows if str(column).startswith(f"{measure.name}_{seed_column('')}")]
    for column in seeds:
        axes.plot(rows[swept], rows[column] / scale.divisor, **look | THIN | {"marker": "", "label": "_"})
    half = None if seeds else _half(rows[f"{measure.name}_ci"] / scale.divisor)
    axes.errorbar(
        rows[swept], rows[measure.name] / scale.divisor, yerr=half, markeredgecolor=style.PAPER, markeredgewidth=0.5,
        elinewidth=0.8, **look,
    )  # fmt: skip


def _table(study: Study, swept: str) -> "DataFrame":
    from pandas import DataFrame

    rest = [axis for axis in study.axes if axis != swept]
    others = labels(rest, [group.values for group in study.groups]) if rest else [""] * len(study.groups)
    few_lines = len(set(others)) <= BANDS
    rows = []
    for group, other in zip(study.groups, others, strict=True):
        row: JsonObject = {"others": other, swept: number(group.values[swept])}
        for measure in with_values(study):
            if measure.name in SHOWN:
                interval = measure.over(group)
                row |= {measure.name: interval.estimate, f"{measure.name}_ci": interval.half_width}
                for seed, value in measure.by_seed(group).items() if few_seeds(group) and few_lines else ():
                    row[f"{measure.name}_{seed_column(seed)}"] = value
        rows.append(row)
    return DataFrame(rows)


def _most(study: Study, measure: StudyMeasure) -> float:
    """What no value of a measure exceeds."""
    return {"share": 1.0, "seconds": math.inf}.get(measure.column.unit, most_clients(study))


def _half(values: Any) -> Any:
    return values if np.isfinite(values).all() else None


def _spread(axes: "Axes", values: list[float]) -> None:
    """Ticks at the swept values; a logarithmic scale where they are multiples rather than steps."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if values[0] > 0 and values[-1] / values[0] >= 8:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(values) <= 8:
        axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
