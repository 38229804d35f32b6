"""The figures: one file an idea, each registered under its name; the page shows them in this order."""

from simfl.report.figures.base import FIGURES, Kind, NothingToDraw

# isort: off  (the order of the page)
from simfl.report.figures import (  # noqa: F401
    accuracy,
    accuracy_time,
    loss,
    effect,
    differences,
    labels,
    privacy,
    tradeoff,
    cardinality,
    fairness,
    participation,
    timeline,
    staleness,
    latency,
)
# isort: on

__all__ = ["FIGURES", "Kind", "NothingToDraw"]
