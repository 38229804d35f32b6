"""Fairness gap against rounds."""

from simfl.report.figures.base import Drawn, figure
from simfl.report.figures.lines import one_panel
from simfl.report.study import Study


@figure("fairness", "Fairness gap", "Participation")
def draw(study: Study) -> Drawn:
    """Largest minus smallest share of the rounds so far in which a client took part; 0 is perfectly fair."""
    return one_panel(
        study, "fairness_gap", "Fairness gap", adorn=lambda axes: axes.set_ylim(0, min(axes.get_ylim()[1], 1.05))
    )
