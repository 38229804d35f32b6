"""What is infinite in a run: empty cells of columns that say so (:class:`simfl.core.columns.Column`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simfl.core.columns import Column


def infinite_rounds(column: Column, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each row of ``rounds.csv`` whether it shows that the column is infinite; rows are text or numbers.

    Of ``end``, the last row if it has no value; of ``whole_sum``, every row without a value that aggregated something.
    """
    empty = [row.get(column.source or column.name) in ("", None) for row in rows]
    if column.final == "end":
        return [False] * (len(rows) - 1) + empty[-1:]
    if column.final == "whole_sum":
        return [none and bool(float(row.get("cardinality") or 0)) for none, row in zip(empty, rows, strict=True)]
    return [False] * len(rows)


def infinite_names(summary: Mapping[str, object], columns: Mapping[str, Column]) -> list[str]:
    """Names in a run's summary whose values are infinite, such as epsilons of updates that no noise covers."""
    if not summary["bytes_up"]:  # nothing was sent, and nothing is accounted
        return []
    without = [name for name, value in summary.items() if value is None and name in columns]
    return [name for name in without if columns[name].may_be_infinite]


def infinite_values(
    summary: Mapping[str, object], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, float]]:
    """For each row of a finished run's ``rounds.csv`` what is infinite there, by name, for curves."""
    shown = {name: infinite_rounds(columns[name], rows) for name in infinite_names(summary, columns)}
    return [{name: math.inf for name, infinite in shown.items() if infinite[place]} for place in range(len(rows))]
