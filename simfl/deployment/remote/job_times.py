"""How long the jobs of real clients took: ``job_times.csv`` beside the results of a served run.

A row a job whose update was accepted, written when it was: ``job``, ``client``, ``version`` of its model, ``samples``
that it was trained on (epochs counted), ``down_bytes`` and ``up_bytes`` of model and update as they are really sent (4
bytes a coordinate, whatever the scenario's ``compression``), ``requested_s`` and ``handed_s`` (when the run wanted the
job, and when the client was told of it), then the client's own ``download_s`` (from being told to having the model) and
``work_s`` (from there to sending), ``upload_s`` (what is left until the update was there) and ``received_s``. Moments
are seconds since 1970 by the server's clock, so that no two clocks are compared. A client that does not report its
durations has empty cells.

The real clock decides nothing here: the file is in no digest, and neither ``verify`` nor ``--replay`` reads it.
"""

from pathlib import Path
from threading import Lock
from typing import NamedTuple

from simfl.api.files import JOB_TIMES, csv_bytes, naming, open_own, read_regular, write_atomically
from simfl.deployment.remote.wall_clock import ClockSource, WallClock
from simfl.plugins import JobRequest, ScenarioError, SimflError, amount


class JobTime(NamedTuple):
    """A row of ``job_times.csv``; durations are None where the client did not report them."""

    job: int
    client: int
    version: int
    samples: int
    down_bytes: int
    up_bytes: int
    requested_s: float
    handed_s: float
    download_s: float | None
    work_s: float | None
    upload_s: float | None
    received_s: float


HEADER = csv_bytes([JobTime._fields])


class JobTimes:
    """Writes the times of one run's jobs into its folder. Any thread may call its methods.

    Args:
        folder: of the run.
        clock: of the server.
    """

    def __init__(self, folder: Path, clock: ClockSource | None = None) -> None:
        self.path, self.clock = folder / JOB_TIMES, clock or WallClock()
        self._requested: dict[int, float] = {}
        self._handed: dict[int, float] = {}
        self._lock = Lock()
        self._open = False

    def note_request(self, job: int) -> None:
        """The run wants a job."""
        with self._lock:
            self._requested[job] = self.clock.now_s()

    def note_handover(self, job: int) -> None:
        """A client is told of a job: the last time counts, since a client that was killed begins again."""
        with self._lock:
            self._handed[job] = self.clock.now_s()

    def note_update(self, request: JobRequest, download_s: float | None, work_s: float | None) -> None:
        """The update of a job has been accepted.

        Args:
            request: the job.
            download_s, work_s: as the client reports them; None = it does not.
        """
        job, size = request.job, 4 * len(request.model)
        with self._lock:
            now_s = self.clock.now_s()
            handed_s = self._handed.pop(job.id, now_s)
            requested_s = self._requested.pop(job.id, handed_s)
            upload_s = None
            if download_s is not None and work_s is not None:
                upload_s = max(0.0, now_s - handed_s - download_s - work_s)
            row = JobTime(job.id, job.client, job.version, request.samples, size, size, requested_s, handed_s,
                          download_s, work_s, upload_s, now_s)  # fmt: skip
            self._append(job_times_bytes([row], header=False))

    def _append(self, line: bytes) -> None:
        if not self._open:  # of a run that goes on; a line that a kill has torn is left behind
            before = read_regular(self.path) if self.path.is_file() else b""
            write_atomically(self.path, before[: before.rfind(b"\n") + 1] or HEADER)
            self._open = True
        with naming(self.path), open_own(self.path, "ab") as file:
            file.write(line)


def read_job_times(path: Path) -> tuple[list[JobTime], int]:
    """The rows of a log (or of the run's folder that holds it) whose clients reported durations, and how many did not.

    Columns may be in any order, and others may be there; ``requested_s``, ``handed_s``, ``received_s``, ``job`` and
    ``version`` may be missing, and so may both sizes, which are 0 then.

    Raises:
        SimflError: it cannot be read, or is no such log; the message names file, line and column.
    """
    from simfl.api.files import csv_rows

    file = path / JOB_TIMES if path.is_dir() else path
    try:
        rows = csv_rows(file, "")
    except ScenarioError as error:
        raise SimflError(f"{path}: {error.message}") from None
    header = rows[0][1] if rows else []
    sizes = tuple(name for name in ("down_bytes", "up_bytes") if {"down_bytes", "up_bytes"} & {*header})
    needed = ("client", "samples", *sizes, "download_s", "work_s", "upload_s")
    if missing := [name for name in needed if name not in header]:
        raise SimflError(f"{file}:1: is no log of jobs: it has no column {', '.join(missing)}")
    places = {name: header.index(name) for name in JobTime._fields if name in header}
    reported, silent = [], 0
    for where, cells in rows[1:]:
        if len(cells) != len(header):
            raise SimflError(f"{where}: {amount(len(cells), 'value')} for {amount(len(header), 'column')}")
        if any(cells[places[name]] == "" for name in needed[-3:]):
            silent += 1
            continue
        reported.append(JobTime._make(_cell(where, name, cells, places) for name in JobTime._fields))
    return reported, silent


def _cell(where: str, name: str, cells: list[str], places: dict[str, int]) -> float:
    """
    Raises:
        SimflError: it is no number from 0.
    """
    if name not in places:
        return 0
    whole = name in ("job", "client", "version", "samples", "down_bytes", "up_bytes")
    try:
        value = int(cells[places[name]]) if whole else float(cells[places[name]])
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        kind = "a whole number" if whole else "a number"
        raise SimflError(f"{where}: {name} is {kind} from 0, not '{cells[places[name]]}'")
    return value


def job_times_bytes(rows: list[JobTime], header: bool = True) -> bytes:
    """Rows as a log, to the microsecond."""
    cells = [["" if cell is None else round(cell, 6) for cell in row] for row in rows]
    return (HEADER if header else b"") + csv_bytes(cells)
