"""Empty cells that mean infinity: which final values, and which rounds (:class:`simfl.core.columns.Column`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simfl.core.columns import Column


def infinite_rounds(column: Column, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each row of ``rounds.csv``, of text or numbers, whether its cell makes the final value infinite.

    Of ``end`` the last row does if it is empty, of ``whole_sum`` every such row that aggregated something, or ``inf``.
    """
    cells = [row.get(column.source or column.name) for row in rows]
    empty = [cell in ("", None) for cell in cells]
    if column.final == "end":
        return [False] * (len(rows) - 1) + empty[-1:]
    if column.final == "whole_sum":
        summed = [bool(float(row.get("cardinality") or 0)) for row in rows]
        return [str(cell) == "inf" or (none and some) for cell, none, some in zip(cells, empty, summed, strict=True)]
    return [False] * len(rows)


def infinite_names(summary: Mapping[str, object], columns: Mapping[str, Column]) -> list[str]:
    """Names in a finished run's summary whose values are infinite, such as epsilons of updates that no noise covers."""
    if summary.get("bytes_up") == 0:  # nothing was sent, and nothing is accounted
        return []
    return [name for name, value in summary.items()
            if value is None and name in columns and columns[name].may_be_infinite]  # fmt: skip


def infinite_values(
    summary: Mapping[str, object], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, float]]:
    """The infinite cells of each row of a finished run's ``rounds.csv``, by name.

    Programs that draw curves would otherwise end them with a finite value that no longer holds.
    """
    added: list[dict[str, float]] = [{} for _ in rows]
    for name in infinite_names(summary, columns):
        if name not in rows[0]:
            continue  # it sums up another column
        for values, infinite in zip(added, infinite_rounds(columns[name], rows), strict=True):
            if infinite:
                values[name] = math.inf
    return added
