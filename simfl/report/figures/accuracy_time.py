"""Accuracy against simulated time."""

from typing import Any

from simfl.report.figures.base import figure
from simfl.report.figures.lines import one_panel, percent
from simfl.report.study import Study


@figure("accuracy_time", "Accuracy against simulated time", "Learning")
def draw(study: Study) -> Any:
    """The same accuracy against the seconds that the simulated devices and network took. A line ends where its
    fastest run ends.
    """
    return one_panel(study, "test_accuracy", "Test accuracy", "time_s", lambda axes: percent(axes.yaxis))
