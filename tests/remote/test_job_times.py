"""``job_times.csv``: written beside the results of a served run, and part of nothing that is compared."""

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.core.http.handler import RequestError
from simfl.core.types import Job, JobRequest
from simfl.deployment.remote.job_server import _duration
from simfl.deployment.remote.job_times import HEADER, JobTimes, read_job_times
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.results.client_updates import UpdateStore, npy_bytes
from tests.support.fake_clock import FakeClock

MODEL = np.ones(10, dtype=np.float32)
WHOLE = [JobRequest(Job(job, job % 2, 4, 0.0), MODEL, 30 + job) for job in range(3)]


def jobs_with(tmp_path, clock):
    return RemoteJobs([0, 1], UpdateStore(tmp_path), "token", 1.0, {}, JobTimes(tmp_path, clock))


def test_the_parts_of_a_job_add_up_to_what_the_server_saw(tmp_path):
    clock = FakeClock(1000)
    jobs = jobs_with(tmp_path, clock)
    jobs.request(WHOLE)
    clock.time_s = 1003
    jobs.jobs(0)  # client 0 has two open jobs, and is handed the first
    clock.time_s = 1010
    jobs.update(0, 0, npy_bytes(MODEL), 0.5, (1.5, 4.25))
    jobs.update(0, 0, npy_bytes(MODEL), 0.5, (1.5, 4.25))  # the same again is no further row
    clock.time_s = 1011
    jobs.jobs(0)
    clock.time_s = 1012
    jobs.jobs(0)  # it was killed and began again
    jobs.jobs(1)
    clock.time_s = 1015
    jobs.update(0, 2, npy_bytes(MODEL), 0.5, (1.0, 1.0))
    jobs.update(1, 1, npy_bytes(MODEL), 0.5)  # of a client that reports nothing
    rows, silent = read_job_times(tmp_path)
    assert silent == 1 and [row.job for row in rows] == [0, 2]
    assert rows[0] == (0, 0, 4, 30, 40, 40, 1000, 1003, 1.5, 4.25, 1.25, 1010)
    assert rows[1][6:] == (1000, 1012, 1.0, 1.0, 1.0, 1015)


def test_a_run_that_goes_on_continues_the_log_without_the_line_that_a_kill_has_torn(tmp_path):
    for job in range(2):
        clock = FakeClock(1000 * (job + 1))
        times = JobTimes(tmp_path, clock)
        times.note_handover(job)
        clock.time_s += 5
        times.note_update(WHOLE[job], 1.0, 2.0)
        with open(times.path, "a") as file:
            file.write("7,0,1,3")
    text = times.path.read_text()
    assert text.startswith(HEADER.decode())
    times.path.write_text(text[: text.rfind("\n") + 1])
    rows, _ = read_job_times(times.path)
    assert [(row.job, row.handed_s, row.upload_s) for row in rows] == [(0, 1000, 2), (1, 2000, 2)]


def test_durations_that_clients_send_are_numbers_of_seconds_or_refused():
    assert _duration({"work_s": ["1.5"]}, "work_s") == 1.5 and _duration({}, "work_s") is None
    for text in ("-1", "inf", "nan", "x"):
        with pytest.raises(RequestError):
            _duration({"work_s": [text]}, "work_s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("client,samples\n0,1\n", "log.csv:1: is no log of jobs: it has no column download_s, work_s, upload_s"),
        ("{head}\n0,1,2\n", "log.csv:2: 3 values for 12 columns"),
        ("{head}\n0,0,1,x,1,1,1,1,1,1,1,1\n", "log.csv:2: samples is a whole number from 0, not 'x'"),
        ("{head}\n0,0,1,1,1,1,1,1,-2,1,1,1\n", "log.csv:2: download_s is a number from 0, not '-2'"),
        ("{head}\n", "no job has durations"),
        ("{head}\n0,0,1,0,1,1,1,1,1,1,1,1\n", "client 0: no job has samples and a work time above 0"),
    ],
)
def test_a_broken_log_is_one_line(tmp_path, text, said):
    (tmp_path / "log.csv").write_text(text.format(head=HEADER.decode().strip()))
    found = CliRunner().invoke(simfl, ["serve", "calibrate", str(tmp_path / "log.csv")])
    error = found.exception if found.exception is not None and not isinstance(found.exception, SystemExit) else None
    message = str(error) if error else found.stderr
    assert found.exit_code == 2 and said in message.strip() and "\n" not in message.strip()


def test_a_log_is_not_overwritten_by_its_profiles(tmp_path):
    (tmp_path / "log.csv").write_text(HEADER.decode())
    with pytest.raises(SimflError):
        read_job_times(tmp_path / "missing.csv")
    found = CliRunner().invoke(
        simfl, ["serve", "calibrate", str(tmp_path / "log.csv"), "-o", str(tmp_path / "log.csv")]
    )
    assert found.exit_code == 2 and (tmp_path / "log.csv").read_text() == HEADER.decode()
