"""Aggregation cardinality against rounds, beside theory."""

import numpy as np

from simfl.report import style
from simfl.report.figures.base import Drawn, figure
from simfl.report.figures.lines import lines, tables
from simfl.report.study import Group, Study


@figure("cardinality", "Aggregation cardinality", "Participation")
def draw(study: Study) -> Drawn:
    """Updates aggregated per round, mean over the rounds so far. Thin lines across are what theory expects of
    selection and failures; what a deadline costs is not in them.
    """
    table = tables(study, "mean_cardinality")
    table["expected"] = [_expected_cardinality(study.group(label)) for label in table.group]
    fig, ((axes,),) = style.figure()
    lines(axes, study, table)
    for group in study.groups:
        expected = _expected_cardinality(group)
        if group.number is not None and np.isfinite(expected):
            color = style.look(group.number)["color"]
            axes.axhline(expected, color=color, linewidth=0.7, alpha=0.7, zorder=1.8, gid=style.tag(group))
    axes.set_ylabel("Updates per round")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    style.legend(fig, axes)
    return fig, table


def _expected_cardinality(group: Group) -> float:
    """The mean of what theory expects of the group's runs; NaN where it says nothing."""
    known = [value for run in group.runs if (value := run.summary.get("expected_cardinality")) is not None]
    return float(np.mean(known)) if known else np.nan
