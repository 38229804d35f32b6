"""Accuracy against rounds."""

from typing import Any

from simfl.report.figures.base import figure
from simfl.report.figures.lines import one_panel, percent
from simfl.report.study import Study


@figure("accuracy", "Accuracy against rounds", "Learning")
def draw(study: Study) -> Any:
    """Share of the test samples that the global model classifies correctly after each round."""
    return one_panel(study, "test_accuracy", "Test accuracy", adorn=lambda axes: percent(axes.yaxis))
