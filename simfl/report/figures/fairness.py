"""Fairness gap against rounds."""

from typing import TYPE_CHECKING

from simfl.report.figures.base import Drawn, figure
from simfl.report.figures.lines import bound, one_panel
from simfl.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@figure("fairness", "Fairness gap", "Participation")
def draw(study: Study) -> Drawn:
    """Largest minus smallest share of the rounds so far in which a client took part; 0 is perfectly fair."""
    return one_panel(study, "fairness_gap", "Fairness gap", adorn=_bounds)


def _bounds(axes: "Axes") -> None:
    axes.set_ylim(bottom=0)
    bound(axes.yaxis, most=1.0)
