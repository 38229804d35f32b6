"""The end of a run: tables completed and renamed, the summary written last."""

import csv
import io
import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.attack_runner import document as document_of
from simfl.agents.aggregation.metric_runner import checked_values
from simfl.attacks.base import Finding
from simfl.core.certificate_words import AGGREGATES_ONLY, premises_of
from simfl.core.column_files import FILE, document
from simfl.core.columns import GUARANTEE_MALICIOUS, GUARANTEES, ROUND_COLUMNS, SUMMARY_COLUMNS, Column
from simfl.core.coverage import beside_sums, clear, sent
from simfl.core.errors import PluginError
from simfl.core.json_data import JsonObject
from simfl.core.registration import packages
from simfl.core.registration.protocol import is_foreign
from simfl.core.storage.disk import sha256, write_atomically
from simfl.core.types import Arrays
from simfl.learning.scores import METRIC
from simfl.privacy.accountant import History
from simfl.results.file_names import ACCURACIES, FINDINGS, GZ, MACHINE, OBSERVERS, PRIVACY, SUMMARY, UPDATES
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import DIVERGED, LOSSES, fill_columns, read_table, summarise, summarise_jobs
from simfl.results.sealed_files import json_bytes, seal_document, write_sealed
from simfl.results.tables import TableWriter
from simfl.runs.accounting import has_unshown
from simfl.runs.coalition import records_of
from simfl.scenario import Scenario
from simfl.scenario.column_owners import with_bases
from simfl.scenario.digest import foreign_plugins
from simfl.scenario.edge_scenarios import edge_groups
from simfl.selection.theory.expected_cardinality import guarantee, guarantee_malicious, keeps_to_family

if TYPE_CHECKING:
    from pandas import DataFrame

MAYBE_EMPTY = ("evaluation.csv", "messages.csv")
"""Tables that are not kept where they hold no row."""

PACKAGES = ("simfl", "numpy", "simpy", "torch", "scipy", "highspy", "networkx")
"""Whose versions are recorded."""


def finish(
    folder: Path,
    scenario: Scenario,
    tables: dict[str, TableWriter],
    rounds: int,
    model: NDArray[np.float32] | None,
    expected_cardinality: float | None,
    columns: Sequence[Column] = ROUND_COLUMNS,
    no_skill_accuracy: float | None = None,
    samples: NDArray[np.int64] | None = None,
    attack_results: Sequence[Finding] = (),
    further: Mapping[str, object] = MappingProxyType({}),
) -> JsonObject:
    """Writes a run's final files; ``summary.json`` comes last and makes the run complete.

    Args:
        folder: the run's folder.
        scenario: what was run.
        tables: every table by file name, still open.
        rounds: rounds that were run.
        model: the final global model, shape (d,), or None.
        expected_cardinality: what theory says, to stand beside the simulated value.
        columns: those of ``rounds.csv``: simfl's, then those of plugins.
        no_skill_accuracy: test accuracy without training, where something is learned.
        samples: training samples of each client, shape (clients,).
        attack_results: of each attack, in the order of the scenario.
        further: what else the summary says: what has trained, what was left out.

    Returns:
        The summary.
    """
    digests = _finish_tables(tables)
    records = records_of(scenario, folder, rounds, samples)
    run_history = records.history(0)
    rows, digests_of_privacy = _fill_privacy(folder, tables["rounds.csv"], records.of_root, records.of_clients())
    if model is not None:
        digests["model.npy"] = _write(folder / "model.npy", _npy(model))
    finals = summarise(rows, columns)
    summary = {
        "name": scenario.name,
        "digest": scenario.digest,
        "seed": scenario.seed,
        "clients": scenario.clients,
        "expected_cardinality": cell(expected_cardinality),
        "no_skill_accuracy": cell(no_skill_accuracy),
        **{name: cell(value) for name, value in finals.items()},
        **_guarantee(scenario, finals, samples, run_history),
        **records.disclosure(_disclosure),
        **further,
        **(summarise_jobs(folder, float(rows[-1]["time_s"])) if "jobs.csv" in tables else {}),
        **records.write_observers(folder / OBSERVERS),
    }
    of_model = _model_metrics(folder, len(rows) - 1)
    summary |= {column.name: value for column, value in of_model.items()}
    unshown = bool(scenario.attacks) and has_unshown(scenario, run_history)
    _describe_columns(folder, scenario, (*columns, *of_model), summary, unshown)
    summary |= _attack_numbers(folder, scenario, attack_results) | _metric_numbers(folder, scenario)
    return _seal(folder, scenario, summary, digests | digests_of_privacy)


def _finish_tables(tables: Mapping[str, TableWriter]) -> dict[str, str]:
    """Renames all tables but rounds.csv; their digests."""
    others = {name: table for name, table in tables.items() if name != "rounds.csv"}
    return {name: table.finish() for name, table in others.items() if not (name in MAYBE_EMPTY and table.empty)}


def _fill_privacy(
    folder: Path, table: TableWriter, of_rounds: Mapping[str, Iterable[object]], client_accounts: Arrays
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Writes what the accountants say of each round and of each client; the rows of the rounds, the files' digests."""
    text, rows = fill_columns(table.check().read_text(), of_rounds)
    digests = {"rounds.csv": _write(folder / "rounds.csv", text.encode())}
    if client_accounts:
        digests[PRIVACY] = _write(folder / PRIVACY, _clients(client_accounts).encode())
    return rows, digests


def _npy(values: NDArray[np.float32]) -> bytes:
    """An array as the content of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def _describe_columns(
    folder: Path, scenario: Scenario, columns: Sequence[Column], summary: JsonObject, unshown: bool
) -> None:
    """Writes what columns and the summary's numbers mean; ``unshown``: attackers were not shown all that there was."""
    numbers = [column for column in SUMMARY_COLUMNS if column.name in summary or column.name == "bytes"]
    plugin_numbers = [column for owner in (*scenario.attacks, *scenario.metrics) for column in owner.finals]
    every = with_bases(scenario, (*columns, *numbers, *plugin_numbers))
    if unshown:
        measured = (column for attack in scenario.attacks for column in (*attack.columns, *attack.finals))
        attacks = {column.name for column in measured if column.better}
        every = [column._replace(**AGGREGATES_ONLY) if column.name in attacks else column for column in every]
    write_atomically(folder / FILE, json_bytes(document(every)))


def _attack_numbers(folder: Path, scenario: Scenario, attack_results: Sequence[Finding]) -> JsonObject:
    """What the attacks add to the summary; their findings are written if there are any."""
    if any(finding.numbers for finding in attack_results):
        names = [attack.name for attack in scenario.attacks]
        write_atomically(folder / FINDINGS, json_bytes(document_of(attack_results, names)))
    return {
        column.name: cell(finding.numbers.get(column.name))
        for attack, finding in zip(scenario.attacks, attack_results, strict=True)
        for column in attack.finals
    }


def _model_metrics(folder: Path, last: int) -> dict[Column, float | None]:
    """What the model's method ``metrics`` says after the last round; None where that is no finite number."""
    if not any((folder / f"evaluation.csv{end}").exists() for end in ("", GZ)):
        return {}  # and pandas, which reads it, is not imported
    table = _table(folder / "evaluation.csv").itertuples()
    values = {(row.name, int(row.round)): float(row.value) for row in table if row.name.startswith(METRIC)}
    sentence = "Of the global model on the test samples, as the model's method metrics says."
    return {
        Column(name, name.removeprefix(METRIC), "number", sentence): values.get((name, last))
        for name in dict.fromkeys(name for name, _ in values)
    }


def _metric_numbers(folder: Path, scenario: Scenario) -> JsonObject:
    """What the metrics add to the summary."""
    numbers: JsonObject = {}
    for metric in scenario.metrics:
        values = checked_values(metric, metric.end(lambda name: _table(folder / name)), metric.finals, "end")
        numbers |= {column.name: cell(values.get(column.name)) for column in metric.finals}
    return numbers


def _seal(folder: Path, scenario: Scenario, summary: JsonObject, digests: dict[str, str]) -> JsonObject:
    """Writes the summary, with the digests of all files; the run is complete then."""
    started = ResultsFolder.open_begun(folder)
    digests |= {name: sha256(started.file(name)) for name in started.files}
    others = (ACCURACIES, ACCURACIES + GZ, FILE, FINDINGS, OBSERVERS, UPDATES)
    digests |= {name: sha256(folder / name) for name in others if (folder / name).exists()}
    summary, data = seal_document(summary, digests)
    write_sealed(folder / MACHINE, _versions(scenario))
    write_atomically(folder / SUMMARY, data)
    return summary


def _write(path: Path, data: bytes) -> str:
    """Writes a file; its digest."""
    write_atomically(path, data)
    return sha256(path)


def _table(path: Path) -> "DataFrame":
    """A finished table as a DataFrame, perhaps compressed; empty where the run has none."""
    import pandas

    path = path if path.exists() else path.with_name(path.name + GZ)
    return read_table(path) if path.exists() else pandas.DataFrame()


def cell(value: object) -> Any:
    """A number as CSV and JSON hold it: None where it is not finite, integers without a point."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value


def round_cells(row: Mapping[str, object]) -> JsonObject:
    """A round's values as :func:`cell`; a loss that is not finite becomes :data:`simfl.results.run_files.DIVERGED`."""
    cells = {name: cell(value) for name, value in row.items()}
    diverged_losses = {name: DIVERGED for name in LOSSES if row.get(name) is not None and cells[name] is None}
    return cells | diverged_losses


def _guarantee(
    scenario: Scenario, finals: JsonObject, samples: NDArray[np.int64] | None, run_history: History
) -> dict[str, int | None]:
    """What theory knows beside the guarantees that were computed; nothing where none was. 1 where the run had sums that
    the policy's family does not know of, or the server may know more than sums.

    Raises:
        PluginError: theory promises more than the sums of this very run keep.
    """
    known = None if edge_groups(scenario) or finals["privacy_strong"] is None else guarantee(scenario, samples)
    if known is None:
        return dict.fromkeys(column.name for column in GUARANTEES)
    sums, is_open = run_history.participation.values(), bool(run_history.open_to(0).any())
    if is_open or not all(keeps_to_family(scenario, P) for P in sums):
        known = dict.fromkeys(known, 1)
    is_open = is_open or not all(keeps_to_family(scenario, P, loses_units=True) for P in sums)
    malicious = 1 if is_open else guarantee_malicious(scenario, samples)
    for notion, column in (("strong", "strong"), ("semi_strong", "weak_upper"), ("weak", "weak_upper")):
        least, promised = finals[f"privacy_{column}"], known[notion]
        if promised is not None and least is not None and promised > least:
            why = f"the {notion} guarantee of its family is {promised}, but the sums of this run keep {least:g}"
            raise PluginError(f"selection '{scenario.selection.name}'", why)
    checked = {} if scenario.selection.receipts(scenario.clients) is None else {GUARANTEE_MALICIOUS.name: malicious}
    return {column.name: known[column.name.removeprefix("guarantee_")] for column in GUARANTEES} | checked


def _disclosure(scenario: Scenario, run_history: History) -> JsonObject:
    """What reaches the server as it is, what it needs or learns of single clients, and whom the protocol tolerates, or
    what is taken for granted of it.

    The colluders are those whom it tolerates in every sum, where that is known; -1 = not even the server alone.
    """
    protocol = scenario.secagg
    disclosed: JsonObject = {"in_clear": clear(scenario)}
    seen = beside_sums(scenario)
    trusted = protocol.assumes and not is_foreign(protocol)  # tells nobody more, whatever the tables say
    if not (trusted or protocol.shows_updates) and sent(scenario) and run_history.open_to(0).any():
        seen.append(f"what a session that failed may tell the server (secagg: {protocol.name})")
    if seen:
        disclosed["beside_sums"] = seen
    if protocol.sums_units:
        disclosed["sums_of_units"] = scenario.selection.unit_size
    if premises := premises_of(scenario):
        disclosed["privacy_assumes"] = premises
    if protocol.assumes or protocol.shows_updates:
        return disclosed
    members = np.diff(run_history.any_view.rows.indptr)
    leaving_two = np.where(members > 0, members - 2, np.inf)  # colluders know their own updates
    others = int(scenario.training.many_aggregators)  # whoever aggregates is one of those who are tolerated
    fewest = np.append(run_history.fewest_tolerated() - others, leaving_two).min(initial=np.inf)
    if np.isfinite(fewest):
        disclosed["tolerated_colluders"] = max(-1, int(fewest))
    return disclosed


def _clients(values: Mapping[str, NDArray[np.generic]]) -> str:
    """A CSV text with a row a client; what is infinite says so."""
    rows = zip(*(column.tolist() for column in values.values()))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["client", *values])
    writer.writerows([client, *row] for client, row in enumerate(rows))
    return text.getvalue()


@cache
def _package_version(package: str) -> str | None:
    """Its version, looked up once in a process: its folder is searched for, and its metadata are parsed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions(scenario: Scenario) -> JsonObject:
    versions: JsonObject = {"python": platform.python_version(), "machine": platform.machine()}
    versions |= {package: _package_version(package) for package in PACKAGES}
    for cls in foreign_plugins(scenario):
        if about := packages.loaded.get(cls.__module__):
            name, _, release = about.rpartition(" ")
            versions[name] = release
    return versions | {"digest": scenario.digest, "origins": scenario.origins}
