"""The curves of a run, or of every run of a sweep, as TensorBoard event files.

An event's step is the round and its wall time the simulated time, so that TensorBoard's "relative" axis shows
simulated seconds.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from simfl.core.errors import requires_extra
from simfl.core.storage.disk import open_own, refuse_links_of_results, write_atomically
from simfl.results.file_names import is_finished, is_swept
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import infinite_values, read_table

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


def export(folder: Path, to: Path) -> list[Path]:
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
