"""How often forecasts held what then happened, in simulated deployments of known law: ``coverage.csv``, written by
``benchmarks/forecast.py --table``.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parent / "coverage.csv"
COMMAND = "python benchmarks/forecast.py --table"



class Coverage(NamedTuple):
    """One row; of quantity ``certain``: clients whose exposure had a probability of 0.9 or more, and how many were.

    Attributes:
        policy: its name in ``selection``; unit: clients in its largest units.
        quantity: that was forecast.
        cases: deployments.
        held: share of them whose 95 % interval held what then happened.
        low, high: exact 95 % interval of that share (Clopper and Pearson).
        fewest, most: clients of the deployments.
    """

    policy: str
    unit: int
    quantity: str
    cases: int
    held: float
    low: float
    high: float
    fewest: int
    most: int

    @property
    def words(self) -> str:
        """``94 % of 120 (88 to 97)``"""
        return f"{100 * self.held:.0f} % of {self.cases} ({100 * self.low:.0f} to {100 * self.high:.0f})"


@cache
def table() -> tuple[Coverage, ...]:
    """All rows."""
    with open(TABLE, encoding="utf-8", newline="") as file:
        rows = [Coverage(row["policy"], int(row["unit"]), row["quantity"], int(row["cases"]), float(row["held"]),
                         float(row["low"]), float(row["high"]), int(row["fewest"]), int(row["most"]))
                for row in csv.DictReader(file)]  # fmt: skip
    return tuple(rows)


def calibrated() -> str:
    """How often near-certain exposures came true, in a sentence; empty where that was not measured."""
    return " ".join(f"Of clients whose exposure had a probability of 0.9 or more, {row.words} were exposed, in simulated "
                    f"deployments ({COMMAND})." for row in table() if row.quantity == "certain")  # fmt: skip


def coverage(text: str, unit: int, k: int | None = None) -> dict[str, Coverage]:
    """The rows of a policy by quantity, of the smallest measured units that are no smaller; none: it was not measured.

    Args:
        text: the policy, as ``--against`` takes it.
        unit: clients in its largest unit.
        k: clients that it selects; batches of so many are the groups of ``partition``.
    """
    name = "partition" if unit > 1 and unit == k and text.startswith("batch_partition") else text.partition(":")[0]
    units = [row.unit for row in table() if row.policy == name and row.unit >= unit]
    if not units or (unit == 1 and min(units) > 1):
        return {}
    return {row.quantity: row for row in table() if row.policy == name and row.unit == min(units)}
