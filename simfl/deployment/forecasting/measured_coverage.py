"""How often forecasts held what then happened, in simulated deployments of known law: ``coverage.csv``, written by
``benchmarks/forecast.py --table``.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from simfl.api.certificates import ONLY_SUMS, WORST

TABLE = Path(__file__).parent / "coverage.csv"
COMMAND = "python benchmarks/forecast.py --table"


class Coverage(NamedTuple):
    """A row: of deployments (``cases``) with a policy and units of up to so many clients, the share whose 95 %
    interval ``held`` what then happened, its exact 95 % interval from ``low`` to ``high`` (Clopper and Pearson), the
    ``fewest`` and ``most`` clients, and the ``level``: the share of the futures that an interval of 95 % has between
    its ends. It is higher than 0.95 where such intervals would otherwise hold less. Of quantity ``certain``: of clients
    whose exposure had a probability of 0.9 or more, the share that were exposed.
    """

    policy: str
    unit: int
    quantity: str
    cases: int
    share: float
    low: float
    high: float
    fewest: int
    most: int
    level: float

    @property
    def words(self) -> str:
        """``94.2 % of 120 (88.4 to 97.6)``"""
        return f"{100 * self.share:.3g} % of {self.cases} ({100 * self.low:.3g} to {100 * self.high:.3g})"


@cache
def table() -> tuple[Coverage, ...]:
    """All rows."""
    kinds = str, int, str, int, float, float, float, int, int, float
    with open(TABLE, encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return tuple(Coverage(*(kind(cell) for kind, cell in zip(kinds, row, strict=True))) for row in rows)


def certainty() -> str:
    """How often near-certain exposures came true, in a sentence."""
    (words,) = (row.words for row in table() if row.quantity == "certain")
    return (
        f"Of clients whose exposure had a probability of 0.9 or more, {words} were exposed in simulated deployments "
        f"(against the server, {WORST}, if {ONLY_SUMS})."
    )


def coverage(text: str, unit: int, clients: int, k: int | None = None) -> dict[str, Coverage]:
    """The rows of a policy by quantity, of the smallest measured units that are no smaller and the numbers of clients
    that are nearest; none: it was not measured.

    Args:
        text: the policy, as ``--against`` takes it.
        unit: clients in its largest unit.
        clients: in its units.
        k: clients that it selects; batches of so many are the groups of ``partition``.
    """
    name = "partition" if unit > 1 and unit == k and text.startswith("batch_partition") else text.partition(":")[0]
    units = [row.unit for row in table() if row.policy == name and row.unit >= unit]
    if not units or (unit == 1 and min(units) > 1):
        return {}
    rows = [row for row in table() if row.policy == name and row.unit == min(units)]
    fewest = min(rows, key=lambda row: max(row.fewest - clients, clients - row.most)).fewest
    return {row.quantity: row for row in rows if row.fewest == fewest}
