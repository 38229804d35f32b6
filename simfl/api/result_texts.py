"""How opened results are shown where Python prints them: one line each, and the table of a notebook."""

from pathlib import Path
from typing import TYPE_CHECKING

from simfl.core.column_files import read_columns
from simfl.core.columns import heading
from simfl.core.errors import amount
from simfl.core.json_data import JsonObject
from simfl.results.frames import html_table

if TYPE_CHECKING:
    from pandas import DataFrame


def run_line(summary: JsonObject, path: Path) -> str:
    """``<Result quickstart: seed 0, 60 rounds, time_s 26.35, test_accuracy 0.9387, in results/quickstart/...>``."""
    values = {name: summary.get(name) for name in ("time_s", "test_accuracy")}
    numbers = "".join(f", {name} {value:.4g}" for name, value in values.items() if value is not None)
    return (
        f"<Result {summary['name']}: seed {summary['seed']}, {amount(summary['rounds'], 'round')}{numbers}, in {path}>"
    )


def sweep_line(kind: str, runs: "DataFrame", path: Path) -> str:
    """``<SweepResult quickstart: runs: 8 done, in results/quickstart/sweep-...>``."""
    return f"<{kind} {path.resolve().parent.name}: runs: {counts_of(runs) or 'none'}, in {path}>"


def counts_of(runs: "DataFrame") -> str:
    """How many runs have which status, in words."""
    return ", ".join(f"{count} {status}" for status, count in runs.status.value_counts().items())


def means_html(document: JsonObject) -> str:
    """The means of a comparison, for a notebook.

    Args:
        document: as ``comparison.json`` holds it.
    """
    from pandas import DataFrame

    from simfl.experiments.compare.show import certificate_notes, mean_cell

    shown = [column for column in read_columns(document.get("columns", ())) if column.shown]
    seeds = len(document["seeds"])
    means = {(row["choice"], row["metric"]): row for row in document["means"]}
    labels = [choice["choice"] for choice in document["choices"]]
    cells = {
        heading(column): [mean_cell(column, means.get((label, column.name)), seeds) for label in labels]
        for column in shown
    }
    diverged = "; ".join(f"{choice['choice']} diverged" for choice in document["choices"]
                     if any(run.get("diverged_round") is not None for run in choice["runs"]))  # fmt: skip
    note = f"Means ± 95 % over {seeds} seeds; baseline {document['baseline']}. {diverged}"
    said = " ".join([note.strip(), *certificate_notes(document)])
    return html_table(document["name"], DataFrame({"": labels, **cells}), said)
