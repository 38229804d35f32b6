"""What a finished run leaves on disk.

``results/<scenario name>/<digest>/``: ``scenario.yaml`` (fully resolved), ``rounds.csv``, ``participation.csv``,
``evaluation.csv`` and ``events.jsonl`` where asked for, ``model.npy``, ``summary.json`` (final values and the
SHA-256 of each table) and ``machine.json``, the one file that may differ between reruns.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from simfl.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, Column
from simfl.errors import SimflError
from simfl.metrics import mean_concurrency, staleness_histogram
from simfl.trace import PARTICIPATION
from simfl.types import SERVER

__all__ = [
    "DIVERGED", "LOSSES", "fill_columns", "participation_matrices", "participation_matrix", "read_table", "summarise",
    "summarise_jobs",
]  # fmt: skip
LOSSES = ("train_loss", "test_loss")

DIVERGED = "nan"
"""Stands in ``rounds.csv`` for a loss that was measured and is not finite; an empty cell does not apply."""


def participation_matrix(path: Path, rounds: int, clients: int) -> Any:
    """The server's participation matrix of a ``participation.csv``, scipy CSR array of shape (rounds, clients).

    Where clients aggregate, too, it holds the largest weight with which anybody aggregated a client.
    """
    matrices = participation_matrices(path, rounds, clients)
    if set(matrices) == {SERVER}:
        return matrices[SERVER]
    return reduce(lambda one, other: one.maximum(other), matrices.values())


def participation_matrices(path: Path, rounds: int, clients: int) -> dict[int, Any]:
    """The participation matrix of each aggregator of a ``participation.csv``, scipy CSR arrays (rounds, clients)."""
    import pandas
    from scipy.sparse import csr_array

    table = pandas.read_csv(path)
    if "aggregator" not in table:
        table["aggregator"] = SERVER
    whose = table.groupby("aggregator") if len(table) else [(SERVER, table)]
    found = {}
    for who, rows in whose:
        round, client, weight = (rows[name].to_numpy() for name in PARTICIPATION)
        places = round.astype(np.int64), client.astype(np.int64)
        found[int(who)] = csr_array((weight.astype(np.float64), places), shape=(rounds, clients))
    return found


def read_table(path: Path) -> Any:
    """A CSV file as a DataFrame; digests stay text, though some look like numbers.

    Raises:
        SimflError: it cannot be read.
    """
    import pandas

    try:
        return pandas.read_csv(path, dtype={"digest": str, "error": str, "choice": str, "baseline": str})
    except (OSError, ValueError) as error:
        raise SimflError(f"{path}: cannot be read ({error})") from None


def fill_columns(table: str, columns: dict[str, Iterable[Any]]) -> tuple[str, list[dict[str, str]]]:
    """A CSV text with whole columns replaced; the new text and its rows as mappings."""
    rows = list(csv.DictReader(io.StringIO(table)))
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = "" if value is None else value
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue(), rows


def summarise(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] = ROUND_COLUMNS) -> dict[str, Any]:
    """Final values of a run from the rows of its ``rounds.csv``, each as its column's ``final`` says.

    Where a loss was not finite, ``diverged_round`` is the first such round; a final loss or accuracy that there is not
    is NaN, whatever went before.

    Args:
        rows: a mapping a round, cells as text or numbers.
        columns: those of ``rounds.csv``.

    Returns:
        By name; None where no round has a value. Sums of whole numbers are whole.
    """
    finals = [column for column in (*columns, *SUMMARY_COLUMNS) if column.final]
    found: dict[str, Any] = {column.name: _final(column, rows) for column in _in_place(finals)}
    diverged = next((i for i, row in enumerate(rows) if DIVERGED in (row.get(name) for name in LOSSES)), None)
    if diverged is not None:
        found["diverged_round"] = diverged
        found["test_accuracy"] = nan if isnan(found["test_loss"] or 0) else found["test_accuracy"]
    return found


def _in_place(columns: Sequence[Column]) -> list[Column]:
    """What says how many rounds there were comes first."""
    return sorted(columns, key=lambda column: column.final != "count")


def _final(column: Column, rows: Sequence[Mapping[str, Any]]) -> float | int | None:
    cells = [row.get(column.source or column.name) for row in rows]
    values = [value for value in cells if value not in ("", None)]
    if column.final == "count":
        return len(values)
    if column.final == "sum":
        return sum(_number(value) for value in values)
    numbers = [float(value) for value in values]
    if not numbers:
        return None
    return {"last": numbers[-1], "max": max(numbers), "min": min(numbers)}[str(column.final)]


def _number(value: Any) -> float | int:
    """A cell as a number, whole where it is written so."""
    text = str(value)
    try:
        return int(text)
    except ValueError:
        return float(text)


def summarise_jobs(folder: Path, until_s: float) -> dict[str, Any]:
    """Final values of an asynchronous run from its ``jobs.csv`` and ``participation.csv``.

    ``client_updates`` in a sum, ``wasted_updates`` (failed, late, forfeited or stale), the number of jobs of each
    outcome, the mean concurrency and the histogram of the staleness of the updates in a sum: a job that was
    aggregated though its client holds no samples is in none.
    """
    import pandas

    columns = ["client", "started_s", "ended_s", "outcome", "round", "staleness"]
    jobs = pandas.read_csv(folder / "jobs.csv", usecols=columns, dtype={"outcome": "category"})
    outcomes = {name: int(count) for name, count in sorted(jobs.outcome.value_counts().items()) if count}
    aggregated = jobs[jobs.outcome == "aggregated"]
    members = pandas.read_csv(folder / "participation.csv", usecols=["round", "client"])
    summed = aggregated[np.isin(_places(aggregated), _places(members))]
    return {
        "client_updates": len(summed),
        "wasted_updates": len(jobs) - len(aggregated) - outcomes.get("open", 0),
        "jobs": outcomes,
        "mean_concurrency": mean_concurrency(jobs.started_s.to_numpy(), jobs.ended_s.to_numpy(), until_s),
        "staleness_histogram": staleness_histogram(summed.staleness.to_numpy()),
    }


def _places(table: Any) -> Any:
    """Round and client of each row as one number."""
    return table["round"].to_numpy().astype(np.int64) << 32 | table["client"].to_numpy().astype(np.int64)
