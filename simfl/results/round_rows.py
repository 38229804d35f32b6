"""A round's row as a mapping from the columns of ``rounds.csv`` to numbers."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

RoundRow = Mapping[str, float | None]
"""A row of ``rounds.csv``: numbers by column (docs/reference/columns.md), None where the cell is empty.

``round``, ``time_s`` (simulated seconds), ``cardinality``, ``train_loss``, ``test_accuracy``, ... A loss that is not
finite is NaN. Columns of privacy are empty while the run goes on: they are computed at its end.
"""

OnRound = Callable[[RoundRow], object]
"""Called with the row of every round; what it returns is not looked at."""


def round_row(columns: Iterable[str], cells: Iterable[object]) -> RoundRow:
    """The row with these cells, as text or as numbers."""
    return {column: _number(cell) for column, cell in zip(columns, cells, strict=True)}


def read_rows(table: Path, rounds: int | None = None) -> Iterator[RoundRow]:
    """The first ``rounds`` rows of a ``rounds.csv``, or all of them."""
    with open(table, newline="") as file:
        reader = csv.reader(file)
        columns = next(reader)
        for cells in islice(reader, rounds):
            yield round_row(columns, cells)


def _number(cell: object) -> float | None:
    """A cell's number, whole ones as int."""
    text = "" if cell is None else str(cell)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)
