"""A comparison in the terminal: a row a choice, and below it how sure the differences are."""

from collections.abc import Callable
from typing import Any

__all__ = ["show"]

Rows = dict[tuple[str, str], dict[str, Any]]

COLUMNS = (
    ("test_accuracy", "final accuracy", lambda x: f"{x:.4f}"),
    ("best_test_accuracy", "best accuracy", lambda x: f"{x:.4f}"),
    ("rounds_to_target", "rounds to target", lambda x: f"{x:.1f}"),
    ("time_s_to_target", "time to target, s", lambda x: f"{x:.4g}"),
    ("bytes_to_target", "MB to target", lambda x: f"{x / 1e6:.4g}"),
    ("privacy_strong", "privacy: strong", lambda x: f"{x:.3g}"),
    ("privacy_semi_strong", "semi-strong", lambda x: f"{x:.3g}"),
    ("privacy_weak_lower", "weak", lambda x: f"{x:.3g}"),
    ("fairness_gap", "fairness gap", lambda x: f"{x:.3f}"),
    ("mean_cardinality", "cardinality", lambda x: f"{x:.3f}"),
    ("expected_cardinality", "in theory", lambda x: f"{x:.3f}"),
    ("time_s", "time, s", lambda x: f"{x:.4g}"),
)
"""Metric, heading, format of a value; one that no run has is left out."""

LEGEND = "* the difference is certain at 95 %; in brackets: half-width if seeds were not shared"

NOT_COMPARED = {"expected_cardinality"}


def show(document: dict[str, Any]) -> None:
    """Prints the tables of a ``comparison.json`` on stdout."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # for a pipe nothing is wrapped
        console = Console(highlight=False, markup=False, width=400)
    means: Rows = {(row["choice"], row["metric"]): row for row in document["means"]}
    labels = [choice["choice"] for choice in document["choices"]]
    columns = [column for column in COLUMNS if any((label, column[0]) in means for label in labels)]
    console.print(_means(document, labels, columns, means))
    if document["paired"]:
        console.print()
        console.print(_differences(document, labels, columns, means))
        console.print(LEGEND, style="dim")


def _means(document: dict[str, Any], labels: list[str], columns: list[Any], means: Rows) -> Any:
    seeds = len(document["seeds"])
    target = document["target_accuracy"]
    to = "" if target is None else f"; target accuracy {target:g}"
    table = _table(f"{document['name']}: mean ± 95 % of {seeds} seed{'s'[: seeds != 1]}{to}", columns)
    for label in labels:
        table.add_row(label, *(_mean(means.get((label, metric)), form, seeds) for metric, _, form in columns))
    return table


def _differences(document: dict[str, Any], labels: list[str], columns: list[Any], means: Rows) -> Any:
    paired: Rows = {(row["choice"], row["metric"]): row for row in document["paired"]}
    columns = [column for column in columns if column[0] not in NOT_COMPARED]
    table = _table(f"difference to {document['baseline']}, same seeds", columns)
    for label in labels:
        if label != document["baseline"]:
            table.add_row(label, *(_difference(paired.get((label, metric)), form) for metric, _, form in columns))
    return table


def _table(title: str, columns: list[Any]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for _, heading, _ in columns:
        table.add_column(heading, justify="right")
    return table


def _mean(row: dict[str, Any] | None, form: Callable[[float], str], seeds: int) -> str:
    if row is None:
        return "never"
    half = 0.0 if row["lower"] is None else (row["upper"] - row["lower"]) / 2
    spread = f" ±{form(half)}" if half else ""
    return form(row["mean"]) + spread + (f" ({row['runs']}/{seeds})" if row["runs"] < seeds else "")


def _difference(row: dict[str, Any] | None, form: Callable[[float], str]) -> str:
    if row is None:
        return ""
    sign = "+" if row["difference"] > 0 else ""
    if row["lower"] is None:
        return sign + form(row["difference"])
    half, apart = (row["upper"] - row["lower"]) / 2, (row["unpaired_upper"] - row["unpaired_lower"]) / 2
    star = "*" if row["lower"] > 0 or row["upper"] < 0 else ""
    return f"{sign}{form(row['difference'])} ±{form(half)} [{form(apart)}]{star}"
