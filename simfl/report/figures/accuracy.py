"""Accuracy against rounds and against simulated time."""

from simfl.report.figures.base import Drawn, figure
from simfl.report.figures.lines import one_panel, percent
from simfl.report.study import Study


@figure("accuracy", "Accuracy against rounds", "Learning")
def draw(study: Study) -> Drawn:
    """Share of the test samples that the global model classifies correctly after each round."""
    return one_panel(study, "test_accuracy", "Test accuracy", adorn=lambda axes: percent(axes.yaxis))


@figure("accuracy_time", "Accuracy against simulated time", "Learning")
def draw_over_time(study: Study) -> Drawn:
    """The same accuracy against the seconds that the simulated devices and network took. A line ends where its
    fastest run ends.
    """
    return one_panel(study, "test_accuracy", "Test accuracy", "time_s", lambda axes: percent(axes.yaxis))
