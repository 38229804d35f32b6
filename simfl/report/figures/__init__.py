"""The figures: a file an idea, each registered under its name."""

from simfl.report.figures import (  # noqa: F401  (registers them)
    attack_findings,
    curves,
    labels,
    latency,
    participation,
    privacy,
    swept,
    timeline,
    tradeoff,
)
from simfl.report.figures.base import FIGURES, Kind, NothingToDraw, broken

__all__ = ["FIGURES", "ORDER", "Kind", "NothingToDraw", "broken", "figures"]

ORDER = (
    "effect", "heat_map",
    "accuracy", "accuracy_time", "loss", "clients", "labels", "differences", "privacy", "ledger", "tradeoff",
    "measured", "pareto", "recovery", "inversion", "membership", "cardinality", "fairness", "participation", "timeline",
    "phases", "latency", "link_use", "concurrency", "staleness", "plugins",
)  # fmt: skip
"""The order of the page; figures of other packages follow."""


def figures() -> list[Kind]:
    """Every figure, in the order of the page."""
    broken()
    return [FIGURES[name] for name in dict.fromkeys((*ORDER, *FIGURES))]
