"""Fitting device profiles to logs whose truth is known: values, and intervals that cover as often as they say."""

import json
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.deployment.remote.calibration import calibrate, profiles_bytes
from simfl.deployment.remote.job_times import JobTime, job_times_bytes
from simfl.deployment.remote.throttle import parse_throttle
from simfl.devices.profiles import read_profiles

TRUE = {"samples_per_s": 40.0, "work_sigma": 0.2, "down_bytes_per_s": 2e5, "up_bytes_per_s": 5e4, "latency_s": 0.1}


def log_of(rng, clients, jobs, sizes=(10_000, 80_000), counts=(50, 200), noise_s=0.02, fixed_s=0.0):
    """Jobs of clients that are as ``TRUE`` says; the model has one of the sizes, the job one of the counts."""
    rows = []
    for job in range(clients * jobs):
        size, samples = int(rng.choice(sizes)), int(rng.choice(counts))
        down, up = (TRUE["latency_s"] + size / TRUE[f"{way}_bytes_per_s"] for way in ("down", "up"))
        work = fixed_s + samples / TRUE["samples_per_s"] * np.exp(TRUE["work_sigma"] * rng.standard_normal())
        errors = noise_s * rng.standard_normal(2)
        rows.append(
            JobTime(job, job % clients, 0, samples, size, size, 0, 0, down + errors[0], work, up + errors[1], 0)
        )
    return rows


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_the_truth_as_often_as_they_say(confidence):
    clients = 600
    found = calibrate(log_of(np.random.default_rng(1), clients, 12), confidence)
    covered = Counter()
    for fit in found.clients:
        covered.update(name for name, value in TRUE.items() if fit.columns[name].low <= value <= fit.columns[name].high)
    spread = 4 * np.sqrt(confidence * (1 - confidence) / clients)
    for name in TRUE:
        assert abs(covered[name] / clients - confidence) < spread, name


def test_many_jobs_give_the_truth():
    (fit,) = calibrate(log_of(np.random.default_rng(2), 1, 6000)).clients
    for name, value in TRUE.items():
        assert fit.columns[name].value == pytest.approx(value, rel=0.03), name
    assert not fit.one_size and not fit.one_count and fit.fixed_s.low < 0 < fit.fixed_s.high


def test_one_size_of_messages_leaves_latency_and_bandwidth_together_and_says_so():
    found = calibrate(log_of(np.random.default_rng(3), 3, 400, sizes=(40_000,), counts=(100,)))
    for fit in found.clients:
        assert fit.one_size and fit.columns["latency_s"].value == 0
        seconds = (
            40_000 / fit.columns["down_bytes_per_s"].value
        )  # what a message of that size takes is right all the same
        assert seconds == pytest.approx(TRUE["latency_s"] + 40_000 / TRUE["down_bytes_per_s"], rel=0.01)
    said = " ".join(found.unresolved)
    assert "latency and bandwidth of every client" in said and "fixed time of each job of every client" in said
    assert "availability" in said


def test_sizes_that_differ_in_one_direction_tell_the_latency_of_both():
    rng = np.random.default_rng(4)
    rows = [row._replace(up_bytes=20_000, upload_s=0.1 + 20_000 / 5e4 + 0.01 * rng.standard_normal())
            for row in log_of(rng, 1, 2000)]  # fmt: skip
    (fit,) = calibrate(rows).clients
    assert fit.columns["latency_s"].value == pytest.approx(0.1, rel=0.05)
    assert fit.columns["up_bytes_per_s"].value == pytest.approx(5e4, rel=0.05)


def test_work_with_a_fixed_part_is_named():
    rows = log_of(np.random.default_rng(5), 1, 300, fixed_s=5.0)
    assert any("not proportional" in text for text in calibrate(rows).unresolved)
    assert not any(
        "not proportional" in text for text in calibrate(log_of(np.random.default_rng(6), 1, 300)).unresolved
    )


def test_what_would_be_negative_is_nothing():
    rng = np.random.default_rng(7)
    rows = [row._replace(download_s=row.down_bytes / 2e5, upload_s=row.up_bytes / 5e4 * rng.uniform(0.9, 1.1))
            for row in log_of(rng, 20, 6)]  # fmt: skip
    for fit in calibrate(rows).clients:
        latency = fit.columns["latency_s"]
        assert 0 <= latency.low <= latency.value <= 0.2 and fit.columns["down_bytes_per_s"].value > 0


def test_one_job_gives_a_value_and_an_interval_that_says_nothing():
    found = calibrate(log_of(np.random.default_rng(8), 1, 1))
    (fit,) = found.clients
    assert fit.columns["samples_per_s"].low == 0 and fit.columns["samples_per_s"].high == np.inf
    assert fit.columns["down_bytes_per_s"].high == np.inf
    assert any("fewer than three jobs" in text for text in found.unresolved)


def test_the_command_writes_what_scenarios_and_throttles_read(tmp_path):
    (tmp_path / "log.csv").write_bytes(job_times_bytes(log_of(np.random.default_rng(9), 4, 30)))
    out = tmp_path / "devices.csv"
    shown = CliRunner().invoke(simfl, ["serve", "calibrate", str(tmp_path / "log.csv"), "-o", str(out)])
    assert shown.exit_code == 0 and "samples/s" in shown.stdout and "Not separable: availability" in shown.stdout
    table = read_profiles(out)
    assert table.clients.tolist() == [0, 1, 2, 3] and set(table.columns) == set(TRUE)
    assert parse_throttle(str(out), 2).samples_per_s == table.columns["samples_per_s"][2]
    asked = CliRunner().invoke(
        simfl, ["serve", "calibrate", str(tmp_path / "log.csv"), "--drawn", "-o", str(out), "--json"]
    )
    fits = json.loads(asked.stdout)["clients"]
    assert read_profiles(out).clients is None and len(fits) == 4
    assert fits[0]["columns"]["samples_per_s"]["value"] == table.columns["samples_per_s"][0]
    assert profiles_bytes(calibrate([])).decode().startswith("client,jobs,samples_per_s,samples_per_s_low")
