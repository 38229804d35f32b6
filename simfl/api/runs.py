"""Running a scenario whose clients may be elsewhere, and what a finished run shows to observers."""

from simfl.runs.accounting import view_of_run
from simfl.runs.coalition import coalition
from simfl.runs.run import FinishedRun, run

__all__ = [
    "FinishedRun", "coalition", "run", "view_of_run",
]  # fmt: skip
