"""A throttled client: what its line and its work take, on a clock of the test's own."""

import io
from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.errors import SimflError
from simfl.deployment.remote.client import ClientJob, RemoteClient
from simfl.deployment.remote.throttle import Throttle, TokenBucket, parse_throttle
from tests.support.fake_clock import FakeClock


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=40),
    st.floats(10, 1e4),
    st.floats(0, 200),
    st.lists(st.floats(0, 2), min_size=40, max_size=40),
)
def test_a_bucket_lets_no_more_through_than_rate_and_depth_allow(sizes, rate, depth, pauses):
    clock = FakeClock()
    bucket, passed = TokenBucket(rate, depth, clock), []
    for size, pause in zip(sizes, pauses):
        bucket.take(size)
        passed.append((clock.now_s(), size))
        clock.time_s += pause
    for i, (begin, _) in enumerate(passed):  # in any window: at most the bucket's depth and what has come meanwhile
        for j in range(i + 1, len(passed)):
            through = sum(size for _, size in passed[i + 1 : j + 1])
            assert through <= depth + rate * (passed[j][0] - begin) + 1e-6 * rate + 1e-6


@pytest.mark.parametrize("overshoot_s", [0.0, 0.005])
def test_a_message_takes_its_latency_and_its_bytes_over_the_bandwidth_however_badly_sleeps_end(overshoot_s):
    throttle = Throttle(down_bytes_per_s=50_000, up_bytes_per_s=20_000, latency_s=0.25)
    clock, data = FakeClock(overshoot_s=overshoot_s), bytes(range(256)) * 400
    assert throttle.receive(io.BytesIO(data).read, clock) == data
    down_s = clock.now_s() - 1000
    assert down_s == pytest.approx(0.25 + len(data) / 50_000, abs=3 * overshoot_s + 1e-6)
    assert b"".join(throttle.pieces(data, clock)) == data
    assert clock.now_s() - 1000 - down_s == pytest.approx(0.25 + len(data) / 20_000, abs=3 * overshoot_s + 1e-6)


def test_no_throttle_waits_for_nothing():
    clock = FakeClock()
    assert Throttle().receive(io.BytesIO(b"x" * 10**6).read, clock) == b"x" * 10**6
    assert b"".join(Throttle().pieces(b"y" * 10**6, clock)) == b"y" * 10**6
    assert Throttle().work_s(1e6, 0) == 0 and clock.slept == []


def test_work_is_proportional_to_samples_with_the_spread_asked_for():
    assert Throttle(samples_per_s=20).work_s(50, 7) == 2.5
    spread = Throttle(samples_per_s=20, work_sigma=0.3)
    logs = np.log([spread.work_s(50, job) for job in range(2000)])
    assert abs(logs.mean() - log(2.5)) < 4 * 0.3 / np.sqrt(2000) and abs(logs.std() - 0.3) < 0.02
    assert spread.work_s(50, 3) == spread.work_s(50, 3) != spread.work_s(50, 4)


def test_a_client_measures_download_and_work_and_sends_them_with_the_update(monkeypatch):
    clock, sent, model = FakeClock(), [], io.BytesIO()
    np.save(model, np.ones(1000, dtype=np.float32))
    jobs = b'{"state": "running", "why": "", "jobs": [{"job": 5, "version": 2}]}'

    def call(opener, address, token, method, path, body, throttle, clock):
        if method == "GET":
            return jobs if path.startswith("/jobs") else throttle.receive(io.BytesIO(model.getvalue()).read, clock)
        sent.append((path, b"".join(throttle.pieces(body, clock))))
        return b"{}"

    monkeypatch.setattr("simfl.deployment.remote.client._call", call)
    throttle = Throttle(samples_per_s=10, down_bytes_per_s=1000, up_bytes_per_s=500, latency_s=0.5)
    client = RemoteClient("http://there", "token", 0, {}, None, throttle, clock)
    job = next(client.jobs())
    assert job == ClientJob(5, 2) and len(client.model(job)) == 1000
    clock.time_s += 0.7  # of training, which is part of the 3 s of work
    client.pretend_work(job, 30)
    client.send(job, np.zeros(1000, dtype=np.float32), 0.25)
    ((path, body),) = sent
    size = len(model.getvalue())
    assert path == f"/updates/5?loss=0.25&download_s={0.5 + size / 1000:.6f}&work_s=3.000000" and len(body) == size
    assert clock.now_s() == pytest.approx(1000 + 0.5 + size / 1000 + 3 + 0.5 + size / 500)
    free = replace(client, throttle=None)
    monkeypatch.setattr("simfl.deployment.remote.client._call", lambda *_: jobs)
    assert next(free.jobs()) == job and free.pretend_work(job, 1e9) is None


def test_a_throttle_is_read_from_columns_or_from_a_file_of_profiles(tmp_path):
    made = parse_throttle("samples_per_s=5, up_bytes_per_s=inf,latency_s=0", 3)
    assert made == Throttle(samples_per_s=5.0, up_bytes_per_s=inf)
    file = tmp_path / "devices.csv"
    file.write_text("client,samples_per_s,availability\n1,5,0.5\n0,7,1\n")
    assert parse_throttle(str(file), 1) == Throttle(samples_per_s=5.0)
    file.write_text("samples_per_s\n5\n7\n")
    assert [parse_throttle(str(file), client).samples_per_s for client in range(3)] == [5, 7, 5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed=5", "there is no 'speed'"),
        ("samples_per_sec=5", "did you mean 'samples_per_s'?"),
        ("latency_s=x", "latency_s is a number from 0"),
        ("samples_per_s=0", "samples_per_s is a number from 1e-09"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_a_wrong_throttle_is_one_line(text, said):
    with pytest.raises(SimflError, match="^[^\n]*$") as error:
        parse_throttle(text, 0)
    assert said in str(error.value)
