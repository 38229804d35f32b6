"""What a finished run leaves on disk.

``results/<scenario name>/<digest>/``: ``scenario.yaml`` (fully resolved), ``rounds.csv``, ``participation.csv``,
``evaluation.csv`` and ``events.jsonl`` where asked for, ``model.npy``, ``summary.json`` (final values and the
SHA-256 of each table) and ``machine.json``, the one file that may differ between reruns.
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from html import escape
from itertools import chain, islice
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, Column, heading, number
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER, job_ids
from simfl.metrics.participation import mean_concurrency, staleness_histogram
from simfl.results.file_names import is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.tables import PARTICIPATION
from simfl.secagg.transcript import Transcript

if TYPE_CHECKING:
    from pandas import DataFrame

LOSSES = ("train_loss", "test_loss")

DIVERGED = "nan"
"""Stands in ``rounds.csv`` for a loss that was measured and is not finite; an empty cell does not apply."""


def participation_matrix(path: Path, rounds: int, clients: int) -> Any:
    """The server's participation matrix of a ``participation.csv``, scipy CSR array of shape (rounds, clients).

    Where clients aggregate, too, it holds the largest weight with which anybody aggregated a client.
    """
    return together(participation_matrices(path, rounds, clients))


def together(matrices: Mapping[int, Any]) -> Any:
    """The server's matrix of :func:`participation_matrices`; where clients aggregate, too, the largest weights."""
    if set(matrices) == {SERVER}:
        return matrices[SERVER]
    return reduce(lambda one, other: one.maximum(other), matrices.values())


def participation_matrices(path: Path, rounds: int, clients: int) -> dict[int, Any]:
    """The participation matrix of each aggregator of a ``participation.csv`` but edges, CSR (rounds, clients)."""
    from scipy.sparse import csr_array

    table = _numbers(path)
    round, client, weight = (table[name] for name in PARTICIPATION)
    whose = table.get("aggregator", np.full(len(round), SERVER)).astype(np.int64)
    order = np.argsort(whose, kind="stable")
    order = order[whose[order] >= SERVER]
    aggregators, starts = np.unique(whose[order], return_index=True)
    matrices = {}
    for who, rows in zip(aggregators.tolist() or [SERVER], np.split(order, starts[1:]), strict=True):
        places = round[rows].astype(np.int64), client[rows].astype(np.int64)
        matrices[who] = csr_array((weight[rows], places), shape=(rounds, clients))
    return matrices


def _numbers(path: Path) -> dict[str, NDArray[np.float64]]:
    """The columns of a table of numbers only; without pandas, which takes longer to import than most runs to end."""
    with path.open(encoding="utf-8") as file:
        names, first = file.readline().rstrip("\n").split(","), file.readline()
        table = np.loadtxt(chain([first], file), delimiter=",", ndmin=2) if first else np.empty((0, len(names)))
    return dict(zip(names, table.T, strict=True))


def read_table(path: Path) -> "DataFrame":
    """A CSV file as a DataFrame; digests stay text, though some look like numbers.

    Raises:
        SimflError: it cannot be read.
    """
    import pandas

    try:
        return pandas.read_csv(path, dtype={"digest": str, "error": str, "choice": str, "baseline": str})
    except (OSError, ValueError) as error:
        raise SimflError(f"{path}: cannot be read ({error})") from None


def fill_columns(table: str, columns: Mapping[str, Iterable[object]]) -> tuple[str, list[dict[str, str]]]:
    """A CSV text with whole columns replaced, but for cells of ``...``; the new text and its rows as mappings."""
    rows = list(csv.DictReader(io.StringIO(table)))
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            if value is not ...:
                row[name] = "" if value is None else value
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue(), rows


def summarise(rows: Sequence[Mapping[str, object]], columns: Sequence[Column] = ROUND_COLUMNS) -> JsonObject:
    """Final values of a run from the rows of its ``rounds.csv``, each as its column's ``final`` says.

    Cells are text or numbers. Where a loss was not finite, ``diverged_round`` is the first such round; a final loss or
    accuracy that there is not is NaN, whatever went before. None where no round has a value, and where an empty cell
    means that the value is infinite; sums of whole numbers are whole.
    """
    finals = [column for column in (*columns, *SUMMARY_COLUMNS) if column.final]
    finals.sort(key=lambda column: column.final != "count")  # what says how many rounds there were comes first
    summary: JsonObject = {column.name: _final(column, rows) for column in finals}
    diverged = next((i for i, row in enumerate(rows) if DIVERGED in (row.get(name) for name in LOSSES)), None)
    if diverged is not None:
        summary["diverged_round"] = diverged
        summary["test_accuracy"] = nan if isnan(summary["test_loss"] or 0) else summary["test_accuracy"]
    return summary


def _final(column: Column, rows: Sequence[Mapping[str, Any]]) -> float | int | None:
    cells = [row.get(column.source or column.name) for row in rows]
    values = [value for value in cells if value not in ("", None)]
    if column.final == "count":
        return len(values)
    if any(infinite_rounds(column, rows)):
        return None
    if column.final in ("sum", "whole_sum"):
        return sum(_number(value) for value in values)
    numbers = [float(value) for value in values]
    if not numbers:
        return None
    last = numbers[-1]
    return {"last": last, "end": last, "max": max(numbers), "min": min(numbers)}[str(column.final)]


def _number(value: object) -> float | int:
    """A cell as a number, whole where it is written so."""
    text = str(value)
    try:
        return int(text)
    except ValueError:
        return float(text)


def summarise_jobs(folder: Path, until_s: float) -> JsonObject:
    """Final values of an asynchronous run from its ``jobs.csv`` and ``participation.csv``.

    ``client_updates`` in a sum, ``wasted_updates`` (failed, late, forfeited or stale), the number of jobs of each
    outcome, the mean concurrency and the histogram of the staleness of the updates in a sum: a job that was
    aggregated though its client holds no samples is in none.
    """
    outcomes: Counter[str] = Counter()
    ages: Counter[int] = Counter()
    occupied_s = []  # the one number a job that is kept: there may be many million
    members = np.concatenate([_places(rows) for rows in _pieces(folder / "participation.csv", _MEMBER)])
    members.sort()
    for jobs in _pieces(folder / "jobs.csv", (*_MEMBER, "started_s", "ended_s", "outcome", "staleness")):
        outcomes.update(jobs.outcome.value_counts().to_dict())
        occupied_s.append(jobs.ended_s.to_numpy(np.float64) - jobs.started_s.to_numpy(np.float64))
        aggregated = jobs[jobs.outcome == "aggregated"]
        ids = _places(aggregated)
        summed = np.searchsorted(members, ids, "right") > np.searchsorted(members, ids, "left")
        ages.update(aggregated.staleness.to_numpy()[summed].astype(np.int64).tolist())
    return {
        "client_updates": ages.total(),
        "wasted_updates": outcomes.total() - outcomes["aggregated"] - outcomes["open"],
        "jobs": dict(sorted(outcomes.items())),
        "mean_concurrency": mean_concurrency(np.concatenate(occupied_s), until_s),
        "staleness_histogram": staleness_histogram(ages),
    }


_MEMBER = ("round", "client")
_PIECE = 2**16
"""Rows of a long table that are in memory at once."""


def _pieces(path: Path, columns: Sequence[str]) -> Iterator["DataFrame"]:
    """Some columns of a long table, piece by piece; at least one piece, which may be empty."""
    import pandas

    yield pandas.read_csv(path, usecols=[*columns], nrows=0)
    with pandas.read_csv(path, usecols=[*columns], chunksize=_PIECE) as pieces:
        yield from pieces


def _places(table: Any) -> NDArray[np.int64]:
    """Round and client of each row as one number."""
    return job_ids(table["round"].to_numpy().astype(np.int64), table["client"].to_numpy())


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


RoundRow = Mapping[str, float | None]
"""A row of ``rounds.csv``: numbers by column (docs/reference/columns.md), None where the cell is empty.

``round``, ``time_s`` (simulated seconds), ``cardinality``, ``train_loss``, ``test_accuracy``, ... A loss that is not
finite is NaN. Columns of privacy are empty while the run goes on: they are computed at its end.
"""

OnRound = Callable[[RoundRow], object]
"""Called with the row of every round; what it returns is not looked at."""


def round_row(columns: Iterable[str], cells: Iterable[object]) -> RoundRow:
    """The row with these cells, as text or as numbers."""
    row = zip(columns, cells, strict=True)
    return {column: None if cell is None or cell == "" else _number(str(cell)) for column, cell in row}


def read_rows(table: Path, rounds: int | None = None) -> Iterator[RoundRow]:
    """The first ``rounds`` rows of a ``rounds.csv``, or all of them."""
    with open(table, newline="") as file:
        reader = csv.reader(file)
        columns = next(reader)
        yield from (round_row(columns, cells) for cells in islice(reader, rounds))


MESSAGES = ("round", "sum", "answers", "clients", "flags")
"""Columns of messages.csv: whom the server heard in each session, where that is more than that each update is in its
sum. ``sum``: 1 = there is one; ``answers`` after the upload, of whomever was asked.

A row a session, with its clients in the order of the protocol, and of each a digit (hexadecimal) of ``flags``: 1 = its
masks may be in others' messages, 2 = its update was sent, 4 = it is one of those that the sum is, or was to be, of, 8 =
it answered after the upload. One digit is of all. Updates that were in no session have rows of their own.
"""

UNCOUNTED = "?"
"""Stands for the flags where a server of a plugin does not say what becomes of each update."""

BITS = 1 << np.arange(4)


def message_rows(round: int, transcripts: Iterable[Transcript] | None) -> Iterator[tuple[object, ...]]:
    """The rows of a round; None = nobody has counted."""
    if transcripts is None:
        yield round, 0, 0, "", UNCOUNTED
    for each in transcripts or ():
        digits = "".join(f"{flags:x}" for flags in (BITS @ np.stack(each[2:6]).astype(np.int64)).tolist())
        short = digits[:1] if len(set(digits)) == 1 else digits
        yield round, int(each.ended), each.response_count, " ".join(map(str, each.clients.tolist())), short


def read_messages(
    path: Path, population: int, aggregator: int | None = None
) -> Iterator[tuple[int, Transcript | None]]:
    """The sessions of a messages.csv, perhaps of one aggregator, by round; None where nobody has counted; nothing where
    there is no such file.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:  # a field may be longer than csv reads; none holds a comma or a quote
        header = next(file).rstrip("\n").split(",")
        for line in file:
            row = dict(zip(header, line.rstrip("\n").split(","), strict=True))
            if aggregator is not None and int(row["aggregator"]) != aggregator:
                continue
            t = int(row["round"])
            yield t, None if row["flags"] == UNCOUNTED else _transcript(t, row, population)


def _transcript(round: int, row: dict[str, str], population: int) -> Transcript:
    clients: NDArray[np.int32] = np.array(row["clients"].split(), dtype=np.int32)
    digits = np.array([int(digit, 16) for digit in row["flags"]], dtype=np.int64)
    shared, sent, summed, answered = np.broadcast_to(digits & BITS[:, None] > 0, (4, len(clients)))
    ended, response_count = row["sum"] == "1", int(row["answers"])
    return Transcript(round, clients, shared, sent, summed, answered, ended, response_count, population)


# -- Results as tidy frames, a row an observation, and as small tables for notebooks ---------------------------

SHOWN_ROWS = 20


def all_rounds(folder: Path) -> "DataFrame":
    """The rounds of all finished runs of a sweep or comparison, or of a run: a row a run and round.

    Columns: ``digest``, the keys that were varied, ``seed``, then those of ``rounds.csv``; where runs have different
    columns, every one that some run has.

    Raises:
        SimflError: there is no finished run.
        IntegrityError: a table is damaged.
    """
    if is_finished(folder):
        results = ResultsFolder.open(folder)
        return _rounds([({"digest": results.summary["digest"], "seed": results.summary["seed"]}, folder)])
    index = read_table(ResultsFolder.open_sweep(folder).file("index.csv"))
    return indexed_rounds(index, folder.resolve().parent)


def indexed_rounds(index: "DataFrame", runs: Path) -> "DataFrame":
    """The same from the table of an ``index.csv`` and the folder that holds the runs' folders."""
    about = index.loc[index.status == "done", :"seed"]
    named = [(row, runs / str(row["digest"])) for row in about.to_dict("records")]
    return _rounds(named)


def _rounds(runs: Iterable[tuple[Mapping[Any, object], Path]]) -> "DataFrame":
    """The rounds of some runs, each with what is to stand before them."""
    from pandas import concat

    frames = []
    for about, folder in runs:
        frame = read_table(ResultsFolder.open(folder).file("rounds.csv"))
        for place, (name, value) in enumerate(about.items()):
            frame.insert(place, name, value)
        frames.append(frame)
    if not frames:
        raise SimflError("no finished run here")
    return concat(frames, ignore_index=True)


def as_printed(frame: "DataFrame", known: Mapping[str, Column]) -> "DataFrame":
    """The values of a frame's known columns as the terminal writes them, under headings with their units."""
    shown = frame.copy()
    for name in frame.columns:
        if column := known.get(name):
            shown[name] = [number(column, value) for value in frame[name]]
    return shown.rename(columns={name: heading(column) for name, column in known.items()})


def html_table(title: str, frame: "DataFrame", note: str = "") -> str:
    """A frame with a title, for notebooks: at most :data:`SHOWN_ROWS` rows, four digits, all text escaped."""
    more = f"{len(frame)} rows, the first {SHOWN_ROWS} of them shown. " if len(frame) > SHOWN_ROWS else ""
    table = frame.head(SHOWN_ROWS).to_html(index=False, na_rep="–", float_format="{:.4g}".format, border=0)
    said = f"<p>{escape(more + note)}</p>" if more or note else ""
    return f"<div style='overflow-x:auto'><p><b>{escape(title)}</b></p>{table}{said}</div>"
