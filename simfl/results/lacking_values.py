"""Empty cells that count: what is infinite, or not known, in a run (:class:`simfl.core.columns.Column`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simfl.core.columns import Column

INFINITE, UNKNOWN = "infinite", "not known"


def lacking_rounds(column: Column, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each row of ``rounds.csv``, of text or numbers, whether the run has no final value because the row has none.

    Of ``end`` it may be the last row only; of ``whole_sum`` each that aggregated something.
    """
    empty = [row.get(column.source or column.name) in ("", None) for row in rows]
    if column.final == "end":
        return [False] * (len(rows) - 1) + empty[-1:]
    if column.final == "whole_sum":
        return [none and bool(float(row.get("cardinality") or 0)) for none, row in zip(empty, rows, strict=True)]
    return [False] * len(rows)


def lacking_names(
    summary: Mapping[str, object], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Why a finished run has no final value of some columns, by name: :data:`INFINITE`, such as epsilons of updates
    that no noise covers, or :data:`UNKNOWN`. What does not apply to the run is left out.
    """
    if summary.get("bytes_up") == 0:  # nothing was sent, and nothing is accounted
        return {}
    names = [name for name, value in summary.items() if value is None and name in columns]
    began = {name for name in names if any(row.get(name) not in ("", None) for row in rows)}
    unknown = [name for name in names if columns[name].counts_without_value and name in began]
    return dict.fromkeys(unknown, UNKNOWN) | {name: INFINITE for name in names if columns[name].infinite}


def lacking_values(
    summary: Mapping[str, object], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, float]]:
    """What those who draw curves of a finished run add to each row of ``rounds.csv``, so that no curve ends with a
    value that no longer holds: infinity, or NaN where it is not known.
    """
    added: list[dict[str, float]] = [{} for _ in rows]
    for name, why in lacking_names(summary, columns, rows).items():
        if name not in rows[0]:
            continue  # it sums up another column
        for values, lacks in zip(added, lacking_rounds(columns[name], rows), strict=True):
            if lacks:
                values[name] = math.inf if why == INFINITE else math.nan
    return added
