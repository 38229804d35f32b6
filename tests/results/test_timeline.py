"""Timelines: no client does two things at a time, nobody at work looks idle, every kind of message is drawn."""

import json
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.core.types import SERVER
from simfl.report import read_study
from simfl.report.figures.timeline import _table, draw
from simfl.results.perfetto import OWN_WORK, timeline, write_timeline
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.random_scenarios import random_scenario
from tests.support.search import PLUGINS, impatient
from tests.support.sizes import repeats

TEXT = """
clients: 8
network: {name: star, latency_s: 0.1}
devices:
  computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}
  failure: {name: bernoulli, probability: 0.2}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedbuff, rounds: 8, concurrency: 6, buffer: 4, deadline_s: 1.5}
learning: {name: none, parameters: 10, samples: 1}
trace: events
"""


@pytest.fixture
def soon():
    with impatient():
        yield


def message(kind, client, sent_s, arrives_s, down=False):
    sender, to = (SERVER, client) if down else (client, SERVER)
    return {"event": "message", "kind": kind, "from": sender, "to": to, "bytes": 1, "sent_s": sent_s,
            "arrives_s": arrives_s}  # fmt: skip


def compute(client, start_s, end_s, completed=True):
    return {"event": "compute", "job": 0, "client": client, "start_s": start_s, "end_s": end_s, "completed": completed}


def start(t, time_s):
    return {"event": "round_start", "round": t, "time_s": time_s}


def end(t, time_s, cardinality=1):
    return {"event": "round_end", "round": t, "time_s": time_s, "cardinality": cardinality}


def spans(events):
    """(name, client, from, to), the rounds left out, in the order of their times."""
    found = [(s["name"], s["tid"] - 1, s["ts"] / 1e6, (s["ts"] + s["dur"]) / 1e6) for s in timeline(events)]
    return sorted((span for span in found if span[1] != SERVER), key=lambda span: (span[1], span[2], span[3]))


def test_a_failed_job_does_not_wait_over_the_next_one():
    """A15: client 0 fails at 5 s and works again from 6 s on, past the end of the round."""
    told = spans([
        start(0, 0), message("model", 0, 0, 1, down=True), compute(0, 1, 4, False), message("failure", 0, 4, 5),
        end(0, 10), start(1, 10),
        message("model", 0, 6, 7, down=True), compute(0, 7, 19), message("update", 0, 19, 20), end(1, 20),
    ])  # fmt: skip
    assert [name for name, *_ in told] == ["download", "compute (fails)", "connection lost", "download", "compute",
                                           "upload"]  # fmt: skip


def test_a_wait_ends_with_the_round_or_with_new_work():
    told = spans([
        start(0, 0), message("model", 0, 0, 1, down=True), compute(0, 1, 2), message("update", 0, 2, 3),
        message("model", 1, 0, 1, down=True), compute(1, 1, 2), message("update", 1, 2, 4),
        end(0, 10), start(1, 10),
        message("model", 0, 6, 7, down=True), compute(0, 7, 19), message("update", 0, 19, 20), end(1, 20),
    ])  # fmt: skip
    assert [span for span in told if span[0] == "wait"] == [("wait", 0, 3, 6), ("wait", 1, 4, 10)]


def test_what_is_cancelled_ends_there():
    told = spans([
        start(0, 0), message("model", 0, 0, 1, down=True), compute(0, 1, 4), message("update", 0, 4, 9),
        message("cancel", 0, 5, 8, down=True), {"event": "cancel", "client": 0, "time_s": 5},
        message("model", 0, 6, 7, down=True), compute(0, 7, 19), message("update", 0, 19, 20), end(0, 20),
    ])  # fmt: skip
    assert told == [
        ("download", 0, 0, 1), ("compute", 0, 1, 4), ("upload", 0, 4, 5), ("cancelled", 0, 5, 5), ("cancel", 0, 5, 6),
        ("download", 0, 6, 7), ("compute", 0, 7, 19), ("upload", 0, 19, 20),
    ]  # fmt: skip


def tracks_of(folder):
    """The spans of clients in a written timeline, by track: (name, from, to), seconds; and the tracks' names."""
    write_timeline(folder / "events.jsonl", folder / "timeline.json")
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    names = {each["tid"]: each["args"]["name"] for each in events if each["ph"] == "M"}
    tracks = defaultdict(list)
    for span in events:
        if span["ph"] == "X" and span["dur"] and names[span["tid"]].startswith("client"):
            tracks[span["tid"]].append((span["name"], span["ts"] / 1e6, (span["ts"] + span["dur"]) / 1e6))
    return {track: sorted(found, key=lambda span: span[1:]) for track, found in tracks.items()}, names


def overlaps(track):
    return [(a, b) for a, b in pairwise(track) if b[1] < a[2] - 1e-6]


def test_answers_beside_the_own_work_have_tracks_of_their_own(tmp_path):
    """Client 0 uploads its shares from 1 s to 9 s; meanwhile it relays those of two other units, which overlap."""
    events = [
        start(0, 0), message("share request", 0, 0, 1, down=True), message("share", 0, 1, 9),
        message("deliver request", 0, 2, 5, down=True), message("deliver request", 0, 4, 6, down=True),
        message("deliver", 0, 5, 8), message("deliver", 0, 6, 10), message("model", 0, 9, 11, down=True),
        compute(0, 11, 15), message("deliver", 0, 12, 13), message("update", 0, 15, 16), end(0, 20),
    ]  # fmt: skip
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    tracks, names = tracks_of(tmp_path)
    assert not any(map(overlaps, tracks.values()))
    own, *beside = sorted(tracks)
    assert [name for name, *_ in tracks[own]][-4:] == ["download", "compute", "upload", "wait"]
    assert [names[track] for track in (own, *beside)] == ["client 0", *["client 0, beside its work"] * 2]
    assert sum(map(len, tracks.values())) == 11 and sum(len(tracks[track]) for track in beside) == 5


def test_nobody_does_two_things_at_a_time_in_random_runs(tmp_path, soon):
    """But that phases of a protocol are answered beside the own work, for other units of a buffered server, too; the
    tracks of a timeline show nothing over one another all the same.
    """
    seen = set()
    for number in range(repeats(45, 60)):
        scenario, _ = random_scenario(np.random.default_rng([2027, number]), PLUGINS)
        if scenario.training.many_aggregators:
            continue  # peers send to all their neighbours at once
        try:
            folder = run(scenario, tmp_path, force=True).path
        except SimflError:
            continue
        tracks = defaultdict(list)
        for name, client, begin_s, end_s in spans(map(json.loads, open(folder / "events.jsonl"))):
            assert begin_s <= end_s
            seen.add(name)
            counts = name in OWN_WORK if scenario.training.asynchronous else name != "announcement"
            if counts and name != "cancelled":
                tracks[client].append((name, begin_s, end_s))
        for client, found in tracks.items():
            for (_, _, ended), (name, begun, _) in pairwise(found):
                assert begun >= ended - 1e-6, (number, client, name, begun, ended)
        assert not any(map(overlaps, tracks_of(folder)[0].values())), number
    assert seen >= {"download", "compute", "upload", "wait", "cancel", "cancelled", "share", "share request", "unmask"}


def figure_table(tmp_path, *overrides, text=TEXT, folder=None):
    done = run(Scenario.parse(text, "s", overrides, folder), tmp_path)
    study = read_study([done.path])
    return _table(study.groups[0]), study, done


def test_who_is_at_work_when_the_window_ends_does_not_look_idle(tmp_path):
    """A15: with every client busy all the time, every track is filled up to the end of the figure."""
    always = ["devices.failure=none", "training.concurrency=8", "training.deadline_s=null", "training.rounds=12",
              "devices.computation=constant:seconds=1.0", "training.buffer=2", "selection=random:k=2"]  # fmt: skip
    slow = ["devices.computation={name: per_sample, seconds: 1.0, speed: [1, 1, 1, 9, 1, 1, 1, 9]}"]
    table, _, _ = figure_table(tmp_path, *always, *slow)
    window = table[table.activity == "round"].end_s.max()
    last = table[table.client != SERVER].groupby("client").end_s.max()
    assert len(last) == 8 and last.to_numpy() == pytest.approx(window)
    assert set(table[table.client == 3].activity) == {"download", "compute"}


@pytest.mark.parametrize("training", [[], ["training={name: fedavg, rounds: 6}"]], ids=["fedbuff", "fedavg"])
def test_the_phases_of_a_protocol_are_drawn(tmp_path, training):
    text = TEXT + "secagg: three_phases\nplugins: [three_phases.py]\n"
    table, study, _ = figure_table(tmp_path, *training, text=text, folder=PLUGINS)
    assert set(table.activity) >= {"phase", "download", "compute", "upload", "wait", "round"}
    figure, _ = draw(study)
    assert "secure aggregation" in [text.get_text() for text in figure.legends[0].get_texts()]
