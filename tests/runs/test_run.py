"""A whole run from YAML to tables: reproducible bytes, resume after any kill, nothing half-written."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from simfl.api.result_objects import Result
from simfl.cli import simfl as command
from simfl.core.errors import IntegrityError, SimflError, StopRun
from simfl.results import checkpoint
from simfl.runs.run import run, verify
from simfl.scenario import Scenario
from tests.support.kills import files, killed_after
from tests.support.sizes import repeats

HERE = Path(__file__).resolve().parents[2]

PROTOCOL = """
name: protocol
clients: 30
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.5}, jitter_s: {name: exponential, mean: 0.02}}
devices:
  availability: {name: markov, mean_on_rounds: 6, mean_off_rounds: 3}
  computation: {name: per_sample, seconds: 0.01, speed: {name: log_normal, median: 1, sigma: 0.3}}
  failure: {name: bernoulli, probability: 0.05}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 400, deadline_s: 1.5}
learning: {name: none, parameters: 1000, samples: 10}
"""

DIGITS = """
name: digits
clients: 20
network: {name: star, latency_s: 0.1}
devices: {availability: {name: bernoulli, dropout: 0.3}, failure: {name: bernoulli, probability: 0.1}}
selection: {name: random, k: 5}
training: {name: fedavg, rounds: 12, batch_size: 20, learning_rate: 0.1}
learning: {data: digits, partition: iid, model: mlp}
"""


def tables(folder):
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.suffix in (".csv", ".jsonl", ".npy")}


def test_a_run_leaves_the_whole_layout_and_consistent_tables(tmp_path):
    done = run(Scenario.parse(PROTOCOL, "x", ["trace=events", "training.rounds=50"]), tmp_path)
    assert done.path == tmp_path / "protocol" / done.digest and not done.reused
    names = {p.name for p in done.path.iterdir()} - {".lock"}
    tables = {"rounds.csv", "participation.csv", "events.jsonl", "clients.csv", "latency.csv", "columns.json"}
    assert names == {*tables, "scenario.yaml", "summary.json", "machine.json"}
    assert set(done.summary["sha256"]) == {*tables, "scenario.yaml", "summary.json"}
    result = Result.open(done.path)
    rounds, matrix = result.rounds, result.participation.toarray()
    assert len(rounds) == 50 and list(rounds["round"]) == list(range(50))
    assert (np.diff(rounds.time_s) > 0).all()
    np.testing.assert_array_equal(matrix.sum(axis=1), rounds.cardinality)
    np.testing.assert_array_equal(rounds.skipped, rounds.cardinality == 0)
    np.testing.assert_allclose(rounds.mean_cardinality, rounds.cardinality.cumsum() / np.arange(1, 51))
    shares = matrix.cumsum(axis=0) / np.arange(1, 51)[:, None]
    np.testing.assert_allclose(rounds.fairness_gap, shares.max(axis=1) - shares.min(axis=1))
    assert result.summary["bytes_up"] == rounds.bytes_up.sum() and result.summary["time_s"] == rounds.time_s.iloc[-1]
    messages = [e for e in map(json.loads, open(done.path / "events.jsonl")) if e["event"] == "message"]
    assert sum(m["bytes"] for m in messages if m["kind"] == "model") == rounds.bytes_down.sum()


def test_a_complete_run_is_reused_and_force_plays_it_again(tmp_path):
    scenario = Scenario.parse(PROTOCOL, "x", ["training.rounds=5"])
    first = run(scenario, tmp_path)
    before = tables(first.path)
    assert run(scenario, tmp_path).reused
    again = run(scenario, tmp_path, force=True)
    assert not again.reused and tables(again.path) == before


def test_the_resolved_scenario_on_disk_plays_the_same_run(tmp_path):
    done = run(Scenario.parse(PROTOCOL, "x", ["training.rounds=20"]), tmp_path / "a")
    again = run(Scenario.load(done.path / "scenario.yaml"), tmp_path / "b")
    assert again.digest == done.digest and tables(again.path) == tables(done.path)


def test_events_and_metrics_change_no_other_byte(tmp_path):
    plain = run(Scenario.parse(PROTOCOL, "x", ["training.rounds=40"]), tmp_path)
    traced = run(Scenario.parse(PROTOCOL, "x", ["training.rounds=40", "trace=events"]), tmp_path)
    assert tables(plain.path).items() <= tables(traced.path).items()
    blind = run(Scenario.parse(PROTOCOL, "x", ["training.rounds=40", "privacy=none"]), tmp_path)
    private = [column for column in Result.open(plain.path).rounds if column.startswith("privacy")]
    frames = [Result.open(done.path).rounds.drop(columns=private) for done in (plain, blind)]
    pandas.testing.assert_frame_equal(*frames)
    assert tables(plain.path)["participation.csv"] == tables(blind.path)["participation.csv"]


def test_one_more_client_changes_no_draw_of_the_others(tmp_path):
    """With everyone selected, client i's times and failures are the same among 30 and among 31 clients."""
    seen = []
    for n in (30, 31):
        everyone = ["selection=all", "training.deadline_s=null", "training.skipped_round_s=0"]
        scenario = Scenario.parse(PROTOCOL, "x", [f"clients={n}", "training.rounds=30", "trace=events", *everyone])
        path = run(scenario, tmp_path).path
        events, begin = {}, 0.0
        for event in map(json.loads, open(path / "events.jsonl")):
            if event["event"] == "round_start":
                begin, t = event["time_s"], event["round"]
            elif event["event"] == "compute" and event["client"] < 30:
                key = t, event["client"]
                events[key] = event["start_s"] - begin, event["end_s"] - begin, event["completed"]
        seen.append(events)
    assert seen[0].keys() == seen[1].keys() and len(seen[0]) > 300
    for key, (start, end, completed) in seen[0].items():
        assert seen[1][key] == (pytest.approx(start), pytest.approx(end), completed)


def test_a_timeline_has_a_track_an_agent_and_spans_in_order(tmp_path):
    target = tmp_path / "timeline.json"
    done = run(Scenario.parse(PROTOCOL, "x", ["training.rounds=5"]), tmp_path, timeline=target)
    document = json.loads(target.read_text())
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {"download", "compute", "upload", "wait", "round 0"} <= {span["name"] for span in spans}
    assert all(span["dur"] >= 0 and span["ts"] >= 0 for span in spans)
    tracks = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert tracks[0] == "server" and {span["tid"] for span in spans} == set(tracks)
    rounds = Result.open(done.path).rounds
    ends = [span["ts"] + span["dur"] for span in spans if span["tid"] == 0]
    np.testing.assert_allclose(ends, rounds.time_s * 1e6)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("text", [PROTOCOL, DIGITS])
def test_interrupted_anywhere_and_resumed_gives_the_same_bytes(tmp_path, text):
    scenario = Scenario.parse(text, "x", ["training.rounds=12", "trace=events"])
    whole = tables(run(scenario, tmp_path / "whole").path)
    rng = np.random.default_rng(0)
    interrupted = 0
    while interrupted < 100:
        left = int(rng.integers(1, 4))

        def stop(done, rounds, time_s):
            nonlocal left
            left -= 1
            if left == 0 and done < rounds:
                raise Interrupted

        try:
            again = run(scenario, tmp_path / "again", resume=True, progress=stop)
            break
        except Interrupted:
            interrupted += 1
    assert interrupted >= 3 and tables(again.path) == whole
    assert not list(again.path.glob("*.part"))


def test_ten_sigkills_at_random_moments_change_no_byte(tmp_path):
    """Each process gets through a tenth of the run on average before it dies; the next one goes on."""
    scenario = Scenario.parse(PROTOCOL, "x", ["training.rounds=1000", "trace=events", "privacy=none"])
    begin = time.perf_counter()
    whole = files(run(scenario, tmp_path / "whole").path)
    lasts_s, rng = time.perf_counter() - begin, np.random.default_rng(1)
    pauses = rng.uniform(0, 0.2 * lasts_s, 10)
    kills = sum(killed_after(pause, lambda: run(scenario, tmp_path / "killed")) for pause in pauses)
    assert kills >= 3, "otherwise it had come to its end"
    assert files(run(scenario, tmp_path / "killed").path) == whole


@pytest.mark.parametrize("limits", ["rounds: 400", "stop: {client_updates: 1600}"], ids=["known", "open end"])
@pytest.mark.parametrize("at", [40, 250])
def test_a_kill_costs_a_fiftieth_of_the_run_at_most(tmp_path, limits, at):
    """Of all rounds or, where nobody knows how many there will be, of those so far; the bytes stay."""
    scenario = Scenario.parse(PROTOCOL.replace("rounds: 400", limits))
    whole = run(scenario, tmp_path / "whole")
    rounds = whole.summary["rounds"]
    assert rounds > 250

    def stop(done, rounds, time_s):
        if done == at:
            raise Interrupted

    with pytest.raises(Interrupted):
        run(scenario, tmp_path / "again", progress=stop)
    begun = {}
    done = run(scenario, tmp_path / "again", phase=begun.setdefault)
    lost = at - begun["running"]
    assert 0 <= lost <= max(1, (400 if limits.startswith("rounds") else at) // 50)
    assert tables(done.path) == tables(whole.path)


def test_a_damaged_checkpoint_falls_back_and_two_stop_the_resume(tmp_path, capsys):
    scenario = Scenario.parse(PROTOCOL, "x", ["training.rounds=12"])
    whole = tables(run(scenario, tmp_path / "whole").path)

    def stop(done, rounds, time_s):
        if done == 8:
            raise Interrupted

    for damaged in (1, 2):
        with pytest.raises(Interrupted):
            run(scenario, tmp_path / "again", progress=stop)
        found = checkpoint.checkpoint_files(tmp_path / "again" / "protocol" / scenario.digest / "checkpoint")
        for path in found[:damaged]:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 4
            path.write_bytes(data)
        if damaged == 1:
            assert tables(run(scenario, tmp_path / "again", resume=True).path) == whole
            assert "damaged (its SHA-256" in capsys.readouterr().err
            run(scenario, tmp_path / "again", force=True)
            (tmp_path / "again" / "protocol" / scenario.digest / "summary.json").unlink()
        else:
            with pytest.raises(IntegrityError, match="no checkpoint is usable"):
                run(scenario, tmp_path / "again", resume=True)


def test_two_processes_do_not_play_the_same_run(tmp_path):
    scenario = Scenario.parse(PROTOCOL, "x", ["training.rounds=5"])

    def second(done, rounds, time_s):
        with pytest.raises(SimflError, match="another process"):
            run(scenario, tmp_path)

    run(scenario, tmp_path, progress=second)


def test_verify_plays_again_and_sees_damage(tmp_path):
    done = run(Scenario.parse(PROTOCOL, "x", ["training.rounds=10", "trace=events"]), tmp_path)
    assert set(verify(done.path).values()) == {True}
    table = done.path / "participation.csv"
    table.write_text(table.read_text() + "9,0,1\n")
    with pytest.raises(IntegrityError, match="participation.csv"):
        verify(done.path)
    with pytest.raises(SimflError, match="no finished run"):
        verify(tmp_path)


def test_hash_seed_and_thread_count_change_no_byte(tmp_path):
    (tmp_path / "s.yaml").write_text(DIGITS)
    found = []
    for hash_seed, threads in ((0, 1), (1, 2), (2, 1))[: repeats(2, 3)]:
        environment = os.environ | {"PYTHONPATH": str(HERE), "PYTHONHASHSEED": str(hash_seed)}
        environment |= {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS")}
        out = str(tmp_path / str(hash_seed))
        command = [sys.executable, "-m", "simfl", "run", "-q", str(tmp_path / "s.yaml"), "--out", out]
        folder = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
        found.append(tables(folder))
    assert all(tables == found[0] for tables in found) and "model.npy" in found[0]


ARRAYS = {
    "attacks=[recorder]": ("observed/0/sum", "observed/0/seen"),
    "training.server_optimiser={name: sgd, momentum: 0.9}": ("optimiser/velocity",),
    "training.client=scaffold": ("learner/common/variate", "learner/holders/variate", "learner/own/variate"),
    "selection={name: oort, k: 2}": ("records/client/loss_rms", "records/policy/percentile"),
}


@pytest.mark.parametrize("choice", ARRAYS)
def test_a_checkpoint_without_a_plugins_array_is_refused_in_one_line(tmp_path, choice):
    """Also where a plugin would only look for it later, or go on as if no client held anything."""
    text = (
        "clients: 6\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 3}\n"
        "learning: {data: digits, model: logistic}\n"
    )
    recorder = [HERE / "tests/support/plugins/recorder.py"]
    scenario = Scenario.parse(text, "small", [choice], plugins=recorder)

    def stop(row):
        if int(row["round"]) == 1:
            raise StopRun("enough")

    with pytest.raises(StopRun):
        run(scenario, tmp_path, on_round=stop)
    newest, *older = checkpoint.checkpoint_files(next(tmp_path.glob("small/*/checkpoint")))
    for file in older:
        file.unlink()
    arrays, marks = checkpoint.load(newest)
    for key in ARRAYS[choice]:
        checkpoint.save(newest.parent, int(newest.stem), {k: v for k, v in arrays.items() if k != key}, marks)
        with pytest.raises(IntegrityError, match=f"has no '(.*/)?{key.rpartition('/')[2]}', it is of another version"):
            run(scenario, tmp_path)
    checkpoint.save(newest.parent, int(newest.stem), arrays, marks)
    assert run(scenario, tmp_path).summary["rounds"] == 3


def test_quickstart_reaches_ninety_percent(tmp_path):
    done = run(Scenario.load(HERE / "scenarios/quickstart.yaml"), tmp_path)
    assert done.summary["test_accuracy"] >= 0.90


@pytest.mark.parametrize("rule", ["fedavg", "{name: fedbuff, buffer: 2, concurrency: 4}"])
def test_a_checkpoint_of_another_version_is_refused_in_one_line(tmp_path, rule):
    """Whatever the other version did not write."""
    path = tmp_path / "small.yaml"
    path.write_text(f"clients: 6\nselection: {{name: random, k: 2}}\ntraining: {rule}\nlearning: none\n")
    words = ["run", str(path), "training.rounds=8", "--out", str(tmp_path / "r"), "-q"]

    def stop(rounds, *_):
        if rounds == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Scenario.load(path, words[2:3]), tmp_path / "r", progress=stop)
    newest, *older = checkpoint.checkpoint_files(next(tmp_path.glob("r/small/*/checkpoint")))
    for file in older:
        file.unlink()
    arrays, marks = checkpoint.load(newest)
    assert {"time_s", "rounds", "traffic_bytes"} <= arrays.keys()
    for key in (key for key in arrays if not key.startswith("version/")):  # a number, as many as there are models
        checkpoint.save(newest.parent, int(newest.stem), {k: v for k, v in arrays.items() if k != key}, marks)
        done = CliRunner().invoke(command, words)
        assert done.exit_code == 4 and len(done.stderr.splitlines()) == 1, (key, done.stderr)
        assert f"{newest}: has no '" in done.stderr
        assert f"{key.rpartition('/')[2]}', it is of another version of simfl or of a plugin; --force" in done.stderr
    checkpoint.save(newest.parent, int(newest.stem), arrays, marks)
    assert CliRunner().invoke(command, words).exit_code == 0
