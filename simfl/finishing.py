"""The end of a run: tables completed and renamed, the summary written last."""

import csv
import io
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl import packages
from simfl.accounting import accounts, history, of_clients
from simfl.agents.concluding import document as document_of
from simfl.agents.measuring import checked_values
from simfl.attacks.base import Finding
from simfl.columns import FILE, GUARANTEES, ROUND_COLUMNS, SUMMARY_COLUMNS, Column, document
from simfl.coverage import clear
from simfl.disk import sha256, write_atomically
from simfl.results import DIVERGED, LOSSES, fill_columns, read_table, summarise, summarise_jobs
from simfl.scenario import Scenario
from simfl.selection.theory import guarantee
from simfl.stored import (
    ACCURACIES,
    FINDINGS,
    MACHINE,
    PRIVACY,
    SUMMARY,
    UPDATES,
    Stored,
    sealed,
    write_sealed,
)
from simfl.trace import Table

__all__ = ["cell", "finish", "round_cells"]


def finish(
    folder: Path,
    scenario: Scenario,
    tables: dict[str, Table],
    rounds: int,
    model: NDArray[np.float32] | None,
    expected_cardinality: float | None,
    columns: Sequence[Column] = ROUND_COLUMNS,
    no_skill_accuracy: float | None = None,
    samples: NDArray[np.int64] | None = None,
    findings: Sequence[Finding] = (),
) -> dict[str, Any]:
    """Writes a run's final files; ``summary.json`` comes last and makes the run complete.

    Args:
        folder: the run's folder.
        scenario: what was played.
        tables: every table by file name, still open.
        rounds: rounds played.
        model: the final global model, shape (d,), or None.
        expected_cardinality: what theory says, to stand beside the simulated value.
        columns: those of ``rounds.csv``: simfl's, then those of plugins.
        no_skill_accuracy: test accuracy without training, where something is learned.
        samples: training samples of each client, shape (clients,).
        findings: of each attack, in the order of the scenario.

    Returns:
        The summary.
    """
    digests = {}
    for name, table in tables.items():
        if name != "rounds.csv" and not (name == "evaluation.csv" and table.empty):
            digests[name] = table.finish()
    seen = history(scenario, folder, rounds, samples)
    text, rows = fill_columns(tables["rounds.csv"].check().read_text(), accounts(scenario, seen))
    write_atomically(folder / "rounds.csv", text.encode())
    digests["rounds.csv"] = sha256(folder / "rounds.csv")
    if each := of_clients(scenario, seen):
        write_atomically(folder / PRIVACY, _clients(each).encode())
        digests[PRIVACY] = sha256(folder / PRIVACY)
    if model is not None:
        buffer = io.BytesIO()
        np.save(buffer, model)
        write_atomically(folder / "model.npy", buffer.getvalue())
        digests["model.npy"] = sha256(folder / "model.npy")
    jobs = summarise_jobs(folder, float(rows[-1]["time_s"])) if "jobs.csv" in tables else {}
    finals = summarise(rows, columns)
    summary = {
        "name": scenario.name,
        "digest": scenario.digest,
        "seed": scenario.seed,
        "clients": scenario.clients,
        "expected_cardinality": cell(expected_cardinality),
        "no_skill_accuracy": cell(no_skill_accuracy),
        **{name: cell(value) for name, value in finals.items()},
        **_guarantee(scenario, finals),
        "in_clear": clear(scenario),
        **jobs,
    }
    found = [column for column in SUMMARY_COLUMNS if column.name in summary or column.name == "bytes"]
    added = [column for owner in (*scenario.attacks, *scenario.metrics) for column in owner.finals]
    write_atomically(folder / FILE, _json(document((*columns, *found, *added))))
    for attack, finding in zip(scenario.attacks, findings, strict=True):
        summary |= {column.name: cell(finding.numbers.get(column.name)) for column in attack.finals}
    if any(finding.numbers for finding in findings):
        write_atomically(folder / FINDINGS, _json(document_of(findings, [attack.name for attack in scenario.attacks])))
    for metric in scenario.metrics:
        ended = checked_values(metric, metric.end(lambda name: _table(folder / name)), metric.finals, "end")
        summary |= {column.name: cell(ended.get(column.name)) for column in metric.finals}
    begun = Stored.begun(folder)
    digests |= {name: sha256(begun.file(name)) for name in begun.files}
    others = (ACCURACIES, FILE, FINDINGS, UPDATES)
    digests |= {name: sha256(folder / name) for name in others if (folder / name).exists()}
    summary, data = sealed(summary, digests)
    write_sealed(folder / MACHINE, _versions(scenario))
    write_atomically(folder / SUMMARY, data)
    return summary


def _table(path: Path) -> Any:
    """A finished table as a DataFrame, empty where the run has none."""
    import pandas

    return read_table(path) if path.exists() else pandas.DataFrame()


def cell(value: Any) -> Any:
    """A number as CSV and JSON hold it: None where it is not finite, integers without a point."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value


def round_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """A round's values as :func:`cell`; a loss that is there but not finite becomes :data:`simfl.results.DIVERGED`."""
    cells = {name: cell(value) for name, value in row.items()}
    lost = {name: DIVERGED for name in LOSSES if row.get(name) is not None and cells[name] is None}
    return cells | lost


def _guarantee(scenario: Scenario, finals: dict[str, Any]) -> dict[str, int | None]:
    """What theory knows beside the guarantees that were computed; nothing where none was."""
    known = None
    if finals["privacy_strong"] is not None:
        known = guarantee(scenario)
    if known is not None and known["weak"] > scenario.selection.unit_size:
        known = None  # everyone in every round: it holds only until somebody fails
    return {column.name: (known or {}).get(column.name.removeprefix("guarantee_")) for column in GUARANTEES}


def _clients(values: Mapping[str, NDArray[Any]]) -> str:
    """A CSV text with a row a client; what is infinite says so."""
    rows = zip(*(column.tolist() for column in values.values()))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["client", *values])
    writer.writerows([client, *row] for client, row in enumerate(rows))
    return text.getvalue()


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def _versions(scenario: Scenario) -> dict[str, Any]:
    found: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("simfl", "numpy", "simpy", "torch", "scipy", "highspy", "networkx"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    for cls in scenario.foreign():
        if about := packages.loaded.get(cls.__module__):
            name, _, release = about.rpartition(" ")
            found[name] = release
    return found | {"origins": scenario.origins}
