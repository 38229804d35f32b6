"""Privacy against accuracy, and against cardinality."""

from typing import Any

import numpy as np

from simfl.report import style
from simfl.report.figures.base import NothingToDraw, figure
from simfl.report.figures.lines import percent
from simfl.report.figures.privacy import doubling
from simfl.report.measures import Measure, measures
from simfl.report.statistics import interval
from simfl.report.study import Study

AXES = ("test_accuracy", "mean_cardinality")


@figure("tradeoff", "What privacy costs", "Privacy", wide=True)
def draw(study: Study) -> Any:
    """Each group's semi-strong guarantee after the last round against its final accuracy and its cardinality: up and
    to the right is better. Whiskers are 95 % confidence intervals over the seeds.
    """
    from pandas import DataFrame

    known = {measure.name: measure for measure in measures(study)}
    rows = [_row(known, group) for group in study.groups]
    table = DataFrame(rows)
    panels = [name for name in AXES if table[name].notna().any()]
    if study.single or not table["privacy_semi_strong"].notna().any() or not panels:
        raise NothingToDraw("needs a comparison whose runs have privacy metrics")
    fig, (drawn,) = style.figure(1, len(panels), wide=True, height_in=3.1, sharey=True)
    for axes, name in zip(drawn, panels, strict=True):
        for group, row in zip(study.groups, rows, strict=True):
            _point(axes, group, row, name)
        axes.set_xlabel(known[name].label)
        if name == "test_accuracy":
            percent(axes.xaxis)
    drawn[0].set_ylabel("Guarantee (clients)")
    doubling(drawn[0])
    style.legend(fig, drawn[0])
    return fig, table


def _row(known: dict[str, Measure], group: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"group": group.label}
    for name in (*AXES, "privacy_semi_strong"):
        found = known[name].over(group) if name in known else interval(())
        row |= {name: found.mean, f"{name}_ci": found.half}
    return row


def _point(axes: Any, group: Any, row: dict[str, Any], name: str) -> None:
    number, y = group.number, "privacy_semi_strong"
    color = style.look(number)["color"]
    whiskers = {"xerr": row[f"{name}_ci"], "yerr": row[f"{y}_ci"]}
    known = {key: value for key, value in whiskers.items() if np.isfinite(value)}
    drawn = axes.errorbar(
        row[name], row[y], color=color, linestyle="none", marker=style.MARKERS[(number or 0) % len(style.MARKERS)],
        markersize=6.5, markeredgecolor=style.PAPER, markeredgewidth=0.6, elinewidth=0.8, label=group.label, **known,
    )  # fmt: skip
    drawn.lines[0].set_clip_on(False)  # a marker on the border is seen whole
    for artist in drawn.get_children():
        artist.set_gid(style.tag(group))
