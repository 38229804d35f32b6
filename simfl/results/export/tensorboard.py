"""The curves of a run, or of every run of a sweep, as TensorBoard event files.

An event's step is the round and its wall time the simulated time, so that TensorBoard's "relative" axis shows
simulated seconds.
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from simfl.core.errors import MissingError
from simfl.core.storage.disk import refuse_links_of_results, write_atomically
from simfl.results.file_names import is_finished, is_swept
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import read_table

AXES = {"round", "time_s"}


def export(folder: Path, to: Path) -> list[Path]:
    """Writes one event file a run below ``to``; the files written.

    Raises:
        MissingError: tensorboard is not installed.
        SimflError: the folder holds no finished run.
    """
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise MissingError('TensorBoard needs the extra "tensorboard": pip install "simfl[tensorboard]"') from None
    written = []
    for label, run in _runs(folder):
        target = to / label if label else to
        refuse_links_of_results(target)
        target.mkdir(parents=True, exist_ok=True)
        written.append(target / f"events.out.tfevents.{run.name}")
        write_atomically(written[-1], _events(ResultsFolder.open(run).file("rounds.csv")))
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


def _events(rounds: Path) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    start = Event(wall_time=0.0, file_version="brain.Event:2")
    writer.write(start.SerializeToString())
    for row in csv.DictReader(io.StringIO(rounds.read_text())):
        values = [Summary.Value(tag=k, simple_value=float(v)) for k, v in row.items() if k not in AXES and v]
        event = Event(wall_time=float(row["time_s"]), step=int(row["round"]), summary=Summary(value=values))
        writer.write(event.SerializeToString())
    return buffer.getvalue()
