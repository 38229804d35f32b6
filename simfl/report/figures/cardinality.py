"""Aggregation cardinality against rounds, beside theory."""

import numpy as np

from simfl.report import style
from simfl.report.figures.base import Drawn, figure
from simfl.report.figures.lines import bound, lines, tables
from simfl.report.study import Group, Study, most_clients


@figure("cardinality", "Aggregation cardinality", "Participation")
def draw(study: Study) -> Drawn:
    """Updates aggregated per round, mean over the rounds so far. Dotted lines across are what theory expects of
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
            axes.axhline(expected, color=color, linewidth=0.9, linestyle=":", zorder=1.8, gid=style.tag(group))
    axes.set_ylabel("Updates per round")
    axes.set_ylim(bottom=0)
    bound(axes.yaxis, most=max(most_clients(study), float(table["mean"].max())))  # of a buffer, more than clients
    style.legend(fig, axes)
    return fig, table


def _expected_cardinality(group: Group) -> float:
    """The mean of what theory expects of the group's runs; NaN where it says nothing."""
    known = [value for run in group.runs if (value := run.summary.get("expected_cardinality")) is not None]
    return float(np.mean(known)) if known else np.nan
