"""Participation logs in the forms in which they come: a list of entries, a matrix, a results folder."""

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from simfl.api.certificates import ObserverView, strong_guarantee
from simfl.api.files import (
    SCENARIO,
    UNREADABLE,
    ResultsFolder,
    dialect_of,
    is_number,
    open_regular,
    participation_matrices,
    read_table,
    together,
)
from simfl.api.runs import view_of_run
from simfl.api.scenarios import read as read_yaml
from simfl.deployment.audit.entries import TwoParts, entries
from simfl.deployment.audit.log import Limits, Log, plain
from simfl.deployment.audit.log_columns import Columns, LogOptions, column_roles, is_likely, missing_column
from simfl.deployment.audit.log_matrix import FORMS, array_matrix, table_matrix, text_matrix
from simfl.deployment.audit.log_table import Table, json_table, parquet_table, text_table
from simfl.plugins import SERVER, IntegrityError, SimflError, amount

__all__ = ["Log", "read"]

JSON = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
ARRAYS = (".npz", ".npy")
SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
PACKED = (".gz", ".bz2", ".xz")
SUMS_OF_UNITS = "the sum of each unit, which no table of rounds tells apart"


def read(path: Path | str, columns: Columns | None = None, options: LogOptions | None = None) -> Log:
    """Reads a participation log.

    Args:
        path: entries with a round and a client, or a round and a list of clients, a line (CSV, TSV and other delimited
            text, JSON, Parquet), in any order and among other columns; a matrix with one row a round, as text (with or
            without a header of client names, and names of rounds), Parquet, NPY or NPZ (one array, or what
            ``scipy.sparse.save_npz`` writes); or the results folder of a run.
        columns: other names of columns, e.g. ``{"round": "iteration", "client": "uid"}``, in place of those of the
            options.
        options: what else is to be said of the log.

    Raises:
        SimflError: it is none of these, an entry is impossible, or it has two readings; the message names file and
            line, and the option that decides.
    """
    path, options = Path(path), options or LogOptions()
    options = options if columns is None else replace(options, columns=columns)
    if options.past is not None:
        return _after(options.past, replace(options, past=None), path)
    try:
        if path.is_dir():
            return _folder(path)
        open_regular(path).close()
        kind = next((suffix for suffix in map(str.lower, reversed(path.suffixes)) if suffix not in PACKED), "")
        if kind in SHEETS:
            raise SimflError(f"{path}: is a spreadsheet; save it as .csv")
        if kind in ARRAYS:
            return array_matrix(path, options)
        if kind in JSON:
            return _of_table(json_table(path, options.role, options.form == "lists", is_likely), options)
        return _of_table(parquet_table(path, options.role), options) if kind in PARQUET else _text(path, options)
    except csv.Error as error:
        raise SimflError(f"{path}: not a CSV file: {error}") from None
    except (*UNREADABLE, UnicodeError) as error:
        raise SimflError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _after(past: Path, options: LogOptions, path: Path) -> Log:
    """The sums of an earlier log and then those of the log at the path; a client is the same by its name.

    Raises:
        SimflError: as for each of them, or one is a folder, both are the same file, nobody is in both, or one alone has
            weights.
    """
    if folder := next((each for each in (past, path) if each.is_dir()), None):
        raise SimflError(f"--past: {folder} is a folder; only logs of one deployment come after another")
    before, log = read(past, options=options), read(path)
    if past.samefile(path):
        raise SimflError(f"--past: {past} is the log itself; name the one that comes before")
    names, place = dict.fromkeys(map(str, before.clients)), dict[str, int]()
    both = sum(str(client) in names for client in log.clients)
    if not both:
        shown = [plain(next(iter(each.clients), "nobody")) for each in (before, log)]
        raise SimflError(f"--past: no client of {past} ({shown[0]}, ...) is in {path} ({shown[1]}, ...); names are "
                         "compared as they are written")  # fmt: skip
    weighted = [bool((each.matrix.data != 1).any()) for each in (before, log)]
    if weighted[0] != weighted[1]:
        with_weights, without = (past, path) if weighted[0] else (path, past)
        raise SimflError(f"--past: {with_weights} has weights and {without} has none; give both, or neither")
    for name in (*names, *map(str, log.clients)):
        place.setdefault(name, len(place))
    parts = []
    for each in (before, log):
        entries, columns = each.matrix.tocoo(), np.array([place[str(client)] for client in each.clients], dtype=int)
        shape = each.matrix.shape[0], len(place)
        parts.append(csr_array((entries.data, (entries.row, columns[entries.col])), shape=shape))
    later, numbered = 0, all(isinstance(label, int) for label in (*before.rounds, *log.rounds))
    if numbered:  # as in one log, so that numbers that are left out are rounds without a sum
        later = max(0, before.rounds[-1] + 1 - log.rounds[0])
        rounds = [*before.rounds, *(label + later for label in log.rounds)]
    else:
        rounds = [*(f"past {label}" for label in before.rounds), *log.rounds]
    moved = f", its rounds counted on from {log.rounds[0] + later}" if later else ""
    joined = f"then {path}, {both} of whose {amount(len(log.clients), 'client')} are in {past}{moved}"
    unweighted = [f"{plain(each.varying)} changes within clients of {file}, and weights are taken to be equal"
             for each, file in ((before, past), (log, path)) if each.varying]  # fmt: skip
    unused = tuple(dict.fromkeys((*before.unused, *log.unused)))
    return Log(vstack(parts, format="csr"), rounds, list(place), unused, before.doubles and log.doubles,
               words=(*before.words, joined, *log.words, *unweighted),
               entries=TwoParts.of(before.entries, log.entries))  # fmt: skip


def _text(path: Path, options: LogOptions) -> Log:
    """Entries or a matrix as text."""
    dialect = dialect_of(path)
    header = dialect.header
    if not header:
        raise SimflError(f"{path}: the log is empty")
    if len(header) > Limits.COLUMNS:
        raise SimflError(f"{path}: {len(header)} columns are more than the {Limits.COLUMNS} that are read")
    if options.form not in ("matrix", "indexed") and column_roles(path, header, options, dialect.skipped + 1):
        first = dialect.skipped + (not dialect.commented)
        log = entries(text_table(path, dialect, options.role, list(header), first), options)
        assert log is not None, "it has a round and a client"
        return log
    try:
        return text_matrix(path, dialect, options)
    except SimflError as error:
        raise _no_log(path, header, options, error) from None


def _of_table(table: Table, options: LogOptions) -> Log:
    """Entries, or a matrix whose columns are named."""
    log = None if options.form in ("matrix", "indexed") else entries(table, options)
    if log is not None:
        return log
    try:
        return table_matrix(table, options)
    except SimflError as error:
        raise _no_log(table.path, table.header, options, error) from None


def _no_log(path: Path, header: Sequence[str], options: LogOptions, error: SimflError) -> SimflError:
    """What a file is told that holds no matrix either."""
    rounds = [name for name in header if is_likely(name, "round")]
    if options.form is not None or "--form" in str(error) and not rounds:
        return error
    if rounds:
        return SimflError(f"{path}:1: {missing_column(path, {'round': rounds[0]}, {})}")
    is_text = not all(map(is_number, header)) and re.search("not a (matrix|table)", str(error))
    return SimflError(f"{path}:1: {FORMS}") if is_text else error


def _folder(path: Path) -> Log:
    reader = ResultsFolder.open(path)
    scenario = read_yaml(reader.read(SCENARIO).decode(), SCENARIO).value
    if "observers" in reader.summary and "topology" in scenario:  # else all have sums of the same
        raise SimflError(f"{path}: has several observers; its observers.csv says what each of them learned")
    file = reader.file("participation.csv")
    matrices = participation_matrices(file, int(reader.summary["rounds"]), int(reader.summary["clients"]))
    peers = () if set(matrices) == {SERVER} else ("the update of each client that sums up what others send, by itself",)
    matrix, strong = together(matrices), reader.summary.get("privacy_strong")
    seen = (*peers, *reader.summary.get("beside_sums", ()))
    seen += (SUMS_OF_UNITS,) if "sums_of_units" in reader.summary else ()
    said = reader.summary.get("tolerated_colluders")  # what is open to the server alone is in its matrix, or beside
    tolerated = None if said is None else max(0, said)
    weighting = scenario["training"].get("weighting")
    samples = None if weighting == "equal" else read_table(reader.file(reader.table("clients.csv"))).samples.to_numpy()
    return Log(matrix, range(matrix.shape[0]), range(matrix.shape[1]), (), True, strong, seen, tolerated, samples)


def with_coalition(log: Log, path: Path, colluding: Sequence[int]) -> tuple[Log, bool]:
    """The log with the very rows that these clients and the server know, failed sessions' too, and whether it has them.

    As it is for others than folders of runs, runs of another simfl, runs whose messages nobody counts or that open
    several sums a round, and those that name plugin files, which an audit does not execute.
    """
    view = _view(path, colluding) if colluding else None
    unlike = view is None or view.open or not view.same  # rows would not say what updates count
    if view is None or unlike or SUMS_OF_UNITS in log.beside_sums:
        return log, False
    nothing = np.setdiff1d(np.arange(log.matrix.shape[0]), view.round)  # they count as rounds all the same
    rounds = np.append(view.round, nothing)
    order = np.argsort(rounds, kind="stable")
    matrix = vstack([view.rows, csr_array((len(nothing), view.rows.shape[1]))]).tocsr()[order]
    return replace(log, matrix=matrix, rounds=rounds[order].tolist(), beside_sums=(), tolerated=None), True


def count_unsummed(path: Path) -> Any:
    """How many updates of each client of a run were seen in no sum, CSR (rounds, clients); None = not known."""
    view = _view(path, ())
    return None if view is None else view.alone


def _view(path: Path, colluding: Sequence[int]) -> ObserverView | None:
    """What the server and these clients of a run's folder have; None where it is not known."""
    if not path.is_dir():
        return None
    try:
        if read_yaml(ResultsFolder.open(path).read(SCENARIO).decode(), SCENARIO).value.get("plugins"):
            return None
        return view_of_run(path, "server", colluding)
    except IntegrityError:
        raise
    except SimflError:
        return None


def refuse_more_than_sums(log: Log, path: object, instead: str, colluders: int = 0) -> None:
    """
    Raises:
        SimflError: more than sums was seen, or is by the server and so many clients; ``instead``, what to do with the
            run's participation.csv.
    """
    if seen := more_than_sums(log, colluders):
        raise SimflError(f"{path}: {seen}; {instead} its participation.csv for the sums alone")


def more_than_sums(log: Log, colluders: int = 0) -> str:
    """In words, what else was seen; empty of a log that tells of nothing but sums."""
    if log.tolerated is not None and colluders > log.tolerated:
        why = f"{amount(colluders, 'colluder')} are more than the {log.tolerated} that the run's protocol tolerates"
        return f"{why}: single updates are open to them"
    if log.beside_sums:
        return f"more than sums was seen: {'; '.join(log.beside_sums)}"
    if log.strong is not None and (sums := strong_guarantee(log.matrix, log.doubles)) > log.strong:
        return (
            f"its sums hide {sums} clients among one another, but more than sums was seen, so that the run itself says "
            f"{log.strong}"
        )
    return ""
