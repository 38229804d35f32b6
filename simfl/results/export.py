"""Results in other programs' formats, each an extra: every table of a results folder as a Parquet file beside it, of a
sweep all rounds of all its runs as well; and the curves of a run, or of all of a sweep, as TensorBoard event files.

An event's step is the round and its wall time the simulated time, so that TensorBoard's "relative" axis shows simulated
seconds.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from simfl.core.errors import SimflError, requires_extra
from simfl.core.storage.disk import open_own, refuse_links_of_results, write_atomically
from simfl.results.file_names import is_finished, is_swept, refuse_result_files
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import all_rounds, infinite_values, read_table

if TYPE_CHECKING:
    from pandas import DataFrame


def export_tables(folder: Path, to: Path) -> list[Path]:
    """Writes each ``*.csv`` of ``folder`` as ``*.parquet`` into ``to``; the files written.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: a table cannot be read, or there is none.
        IntegrityError: it is damaged.
    """
    with requires_extra("parquet", "Parquet"):
        import pyarrow  # noqa: F401
    if is_finished(folder):
        results = ResultsFolder.open(folder)
        tables = {Path(name).stem: read_table(results.file(name)) for name in results.files if name.endswith(".csv")}
    else:
        swept = ResultsFolder.open_sweep(folder) if is_swept(folder) else None
        names = sorted(name for name in swept.files if name.endswith(".csv")) if swept else ()
        tables = {Path(name).stem: read_table(swept.file(name)) for name in names} if swept else {}
        if "index" in tables and (tables["index"].status == "done").any():
            tables["rounds"] = all_rounds(folder)
    if not tables:
        raise SimflError(f"{folder}: no tables here; give the folder of a run, a sweep or a comparison")
    refuse_links_of_results(to)
    to.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in tables.items():
        written.append(to / f"{name}.parquet")
        write_atomically(written[-1], parquet_bytes(table))
    return written


def parquet_bytes(table: "DataFrame") -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def export_rounds(folder: Path, target: Path) -> list[Path]:
    """Writes the rounds of a run, a sweep or a comparison into one file, ``.csv`` or ``.parquet``; the file.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: another ending, results themselves, or no finished run.
        IntegrityError: a table is damaged.
    """
    refuse_result_files(target)
    kind = target.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SimflError(f"{target}: the file must end in .csv or .parquet")
    if kind == ".csv":
        data = all_rounds(folder).to_csv(index=False, lineterminator="\n").encode()
    else:
        with requires_extra("parquet", "Parquet"):
            import pyarrow  # noqa: F401
        data = parquet_bytes(all_rounds(folder))
    refuse_links_of_results(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, data)
    return [target]


AXES = {"round", "time_s"}


class EventFile:
    """An event file that grows; an event is with the operating system as soon as it is added."""

    def __init__(self, file: IO[bytes]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._records = RecordWriter(file)
        self._records.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())

    @classmethod
    def create(cls, folder: Path, run: str) -> "EventFile":
        """A new file of a run, in place of an earlier one."""
        refuse_links_of_results(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(open_own(folder / file_name(run), "wb"))

    def add(self, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Adds values of a round, by name."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._records.write(Event(wall_time=time_s, step=round, summary=summary).SerializeToString())
        self._records.flush()

    def close(self) -> None:
        """Closes the file."""
        self._records.close()


def file_name(run: str) -> str:
    """What TensorBoard finds."""
    return f"events.out.tfevents.{run}"


def export_events(folder: Path, to: Path) -> list[Path]:
    """Writes one event file a run below ``to``; the files written.

    Raises:
        MissingError: tensorboard is not installed.
        SimflError: the folder holds no finished run.
    """
    with requires_extra("tensorboard", "TensorBoard"):
        import tensorboard  # noqa: F401
    written = []
    for label, run in _runs(folder):
        target = to / label if label else to
        refuse_links_of_results(target)
        target.mkdir(parents=True, exist_ok=True)
        written.append(target / file_name(run.name))
        write_atomically(written[-1], _events(ResultsFolder.open(run)))
    return written


def _runs(folder: Path) -> Iterator[tuple[str, Path]]:
    """Folders of finished runs, with a name for each where there are several."""
    if is_finished(folder) or not is_swept(folder):
        yield "", folder
        return
    runs = read_table(ResultsFolder.open_sweep(folder).file("index.csv"))
    keys = list(runs.columns[1 : list(runs.columns).index("status")])
    for row in runs[runs.status == "done"].to_dict("records"):
        label = " ".join(f"{key}={row[key]}" for key in keys)
        yield re.sub(r"[^\w.,=: -]", "_", label), folder.parent / row["digest"]


def _events(results: ResultsFolder) -> bytes:
    buffer = io.BytesIO()
    events = EventFile(buffer)
    rows = list(csv.DictReader(io.StringIO(results.file("rounds.csv").read_text())))
    for row, infinite in zip(rows, infinite_values(results.summary, results.columns(), rows), strict=True):
        values = {name: float(value) for name, value in row.items() if name not in AXES and value}
        events.add(int(row["round"]), float(row["time_s"]), values | infinite)
    return buffer.getvalue()
