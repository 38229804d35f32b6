"""Accuracy, privacy and time of many configurations, and those that no other beats in all of them."""

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import percent
from simfl.report.figures.privacy import doubling
from simfl.report.measures import StudyMeasure, measures
from simfl.report.study import Study, eligible, most_clients

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

SHOWN = {"test_accuracy": 1, "privacy_weak_lower": 1, "time_s": -1}
"""What is drawn, and whether more is better or less."""

PRIVACY = {"privacy_weak_lower"}

FEWEST = 3
"""Configurations of which a front says something."""


@figure("pareto", "Pareto front", "Privacy", wide=True)
def draw(study: Study) -> Drawn:
    """Each configuration's final accuracy, weak guarantee (worst case: updates that stay the same) and simulated time,
    means over its seeds, two at a time.
    Filled: the Pareto front, the configurations that no other equals or beats in all three.
    """
    from pandas import DataFrame

    known = {measure.name: measure for measure in measures(study)}
    groups = [group for group in study.groups if eligible(group)]
    rows = [{"group": group.label, **{name: known[name].over(group).estimate for name in SHOWN if name in known}}
            for group in groups]  # fmt: skip
    table = DataFrame(rows)
    names = [name for name in SHOWN if name in table and table[name].notna().all() and table[name].nunique() > 1]
    if len(groups) < FEWEST or len(names) < 2:
        raise NothingToDraw(f"needs {FEWEST} configurations that differ in two of accuracy, weak guarantee and time")
    table["front"] = front(np.array([SHOWN[name] * table[name] for name in names]).T)
    pairs = [*combinations(names, 2)]
    fig, (row_of_axes,) = style.figure(1, len(pairs), wide=True, height_in=3.1)
    for axes, pair in zip(row_of_axes, pairs, strict=True):
        _panel(axes, table, known, most_clients(study), *pair)
    style.legend(fig, row_of_axes[0], on_page=True)
    return fig, table


def front(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows of (n, m), more being better, no other row equals or beats in all and beats in one.

    >>> front(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 1.0]]))
    array([ True,  True, False])
    """
    beaten = [np.any((values >= one).all(axis=1) & (values > one).any(axis=1)) for one in values]
    return ~np.array(beaten, dtype=bool)


def _panel(axes: "Axes", table: "DataFrame", known: dict[str, StudyMeasure], clients: int, y: str, x: str) -> None:
    for on_front, face in ((False, "none"), (True, style.SERIES[0])):
        part = table[table["front"] == on_front]
        label = "Pareto front" if on_front else "others"
        points = axes.scatter(part[x], part[y], s=32, facecolors=face, edgecolors=style.SERIES[0], label=label)
        points.set_clip_on(False)
    axes.set_xlabel(known[x].label + (" (s)" if x == "time_s" else " (clients)" if x in PRIVACY else ""))
    axes.set_ylabel(known[y].label + (" (clients)" if y in PRIVACY else ""))
    for name, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if name == "test_accuracy":
            percent(axis)
    if y in PRIVACY:
        doubling(axes, clients)
