"""Paired differences to the baseline."""

from typing import TYPE_CHECKING

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.measures import BAND_SEEDS, StudyMeasure, seed_column, with_values
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("test_accuracy", "time_to_target_s", "clients_in_sum", "fairness_excess")
MOST_ROWS = 24
COLUMNS = ["measure", "group", "baseline", "difference", "half", "seeds"]


@figure("differences", "Differences to the baseline", "Learning", wide=True)
def draw(study: Study) -> Drawn:
    """Mean difference to the baseline, seed by seed: all groups meet the same availability, latencies and data, so that
    a difference is the group's own. Whiskers are 95 % confidence intervals, each for itself: of twenty between equals,
    expect one that misses the line; of fewer than five pairs, and of fewer than ten where a run has collapsed, small
    dots are the seeds themselves. Groups that share fewer than two seeds with the baseline are left out.
    """
    from pandas import DataFrame

    if not study.choosable:
        raise NothingToDraw("needs a comparison of what the server chooses")
    baseline = study.group(study.baseline)
    others = [g for g in study.groups if g is not baseline and g.number is not None][:MOST_ROWS]
    known = [m for m in with_values(study) if m.name in SHOWN]
    rows = [_row(measure, group, baseline) for measure in known for group in others]
    table = DataFrame(rows, columns=[*COLUMNS, *sorted({name for row in rows for name in row} - {*COLUMNS})])
    if not others or not (table["seeds"] >= 2).any():
        raise NothingToDraw("needs a comparison with at least two seeds")
    fig, (panels,) = style.figure(1, len(known), wide=True, height_in=0.75 + 0.2 * len(others), sharey=True)
    for axes, measure in zip(panels, known, strict=True):
        differences = table[table.measure == measure.name]
        scale = measure.scale(differences.difference.abs())
        for place, (group, row) in enumerate(zip(others, differences.itertuples(), strict=True)):
            if row.seeds >= 2:
                dots = row.seeds < BAND_SEEDS or np.isnan(row.half)
                single = _by_seed(measure, group, baseline).values() if dots else ()
                _seeds(axes, group, place, [value / scale.divisor for value in single])
                _point(axes, group, place, row.difference / scale.divisor, None if single else row.half / scale.divisor)
        axes.axvline(0, color=style.MUTED, linewidth=0.8)
        unit = {"%": "points"}.get(scale.unit, scale.unit)
        style.title(axes, measure.label + (f" ({unit})" if unit else ""))
        axes.grid(axis="y", visible=False)
    panels[0].set_yticks(range(len(others)), [group.label for group in others])
    panels[0].set_ylim(len(others) - 0.4, -0.6)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    fig.supxlabel(f"difference to {baseline.label}", fontsize=8)
    return fig, table


def _seeds(axes: "Axes", group: Group, place: int, differences: list[float]) -> None:
    """A small dot for each seed's difference."""
    look = {"color": style.look(group.number)["color"], "marker": ".", "linestyle": "none", "alpha": 0.5}
    axes.plot(differences, [place] * len(differences), gid=f"thin-{style.tag(group)}", **look)


def _point(axes: "Axes", group: Group, place: int, difference: float, half: float | None) -> None:
    bar = axes.errorbar(
        difference, place, xerr=half, color=style.look(group.number)["color"], linestyle="none",
        marker=style.MARKERS[(group.number or 0) % len(style.MARKERS)], markersize=5.5,
        markeredgecolor=style.PAPER, markeredgewidth=0.6, elinewidth=1.0,
    )  # fmt: skip
    for artist in bar.get_children():
        artist.set_gid(style.tag(group))


def _by_seed(measure: StudyMeasure, group: Group, baseline: Group) -> dict[int, float]:
    """The difference to the baseline of each seed that both have."""
    ours, theirs = measure.by_seed(group), measure.by_seed(baseline)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def _row(measure: StudyMeasure, group: Group, baseline: Group) -> JsonObject:
    difference, _ = measure.against(group, baseline)
    names = measure.name, group.label, baseline.label
    row = dict(zip(COLUMNS, (*names, difference.estimate, difference.half_width, difference.count), strict=True))
    if difference.count < BAND_SEEDS or difference.lower is None:
        row |= {seed_column(seed): value for seed, value in _by_seed(measure, group, baseline).items()}
    return row
