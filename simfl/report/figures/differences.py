"""Paired differences to the baseline."""

from typing import TYPE_CHECKING

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.measures import StudyMeasure, with_values
from simfl.report.seed_intervals import paired_difference
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("test_accuracy", "time_to_target_s", "mean_cardinality", "fairness_gap")
MOST_ROWS = 24


@figure("differences", "Differences to the baseline", "Learning", wide=True)
def draw(study: Study) -> Drawn:
    """Mean difference to the baseline, seed by seed: all groups meet the same availability, latencies and data, so that
    a difference is the group's own. Whiskers are 95 % confidence intervals, each for itself: of twenty between equals,
    expect one that misses the line. Groups that share fewer than two seeds with the baseline are left out.
    """
    from pandas import DataFrame

    if not study.choosable:
        raise NothingToDraw("needs a comparison of what the server chooses")
    baseline = study.group(study.baseline)
    others = [g for g in study.groups if g is not baseline and g.number is not None][:MOST_ROWS]
    known = [m for m in with_values(study) if m.name in SHOWN]
    rows = [_row(measure, group, baseline) for measure in known for group in others]
    table = DataFrame(rows, columns=["measure", "group", "baseline", "difference", "half", "seeds"])
    if not others or not (table["seeds"] >= 2).any():
        raise NothingToDraw("needs a comparison with at least two seeds")
    fig, (panels,) = style.figure(1, len(known), wide=True, height_in=0.75 + 0.2 * len(others), sharey=True)
    for axes, measure in zip(panels, known, strict=True):
        differences = table[table.measure == measure.name]
        scale = measure.scale(differences.difference.abs())
        for place, (group, row) in enumerate(zip(others, differences.itertuples(), strict=True)):
            if row.seeds >= 2:
                _point(axes, group, place, row.difference / scale.divisor, row.half / scale.divisor)
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


def _point(axes: "Axes", group: Group, place: int, difference: float, half: float) -> None:
    bar = axes.errorbar(
        difference, place, xerr=half, color=style.look(group.number)["color"], linestyle="none",
        marker=style.MARKERS[(group.number or 0) % len(style.MARKERS)], markersize=5.5,
        markeredgecolor=style.PAPER, markeredgewidth=0.6, elinewidth=1.0,
    )  # fmt: skip
    for artist in bar.get_children():
        artist.set_gid(style.tag(group))


def _row(measure: StudyMeasure, group: Group, baseline: Group) -> tuple[object, ...]:
    difference = paired_difference(measure.by_seed(group), measure.by_seed(baseline))
    return measure.name, group.label, baseline.label, difference.estimate, difference.half_width, difference.count
