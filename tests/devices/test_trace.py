"""Recorded availability: half-open intervals in seconds or rounds, names, repetition, broken files."""

from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.devices import AVAILABILITY
from simfl.network.base import NETWORKS

NAMES = ("Boston", "Singapore", "7")


def build(folder=None, clients=3, names=NAMES, **fields):
    plugin = AVAILABILITY.of({"name": "trace", **fields})
    scenario = SimpleNamespace(clients=clients, file=lambda name: folder / name, network=NETWORKS.of("star"))
    assert plugin.check(scenario) == []
    return plugin.build(scenario, Streams(0), names)


def at_s(available, *times):
    return [available.draw(99, time).tolist() for time in times]


def test_intervals_in_seconds_hold_their_start_and_not_their_end():
    available = build(inline=[[0, 1.5, 3], [1, 0, 1.5], [1, 2, 4]])
    assert available.dropout is None
    assert at_s(available, 0, 1.4999, 1.5, 2.0, 2.9999, 3.0, 4.0) == [
        [False, True, False],
        [False, True, False],
        [True, False, False],
        [True, True, False],
        [True, True, False],
        [False, True, False],
        [False, False, False],
    ]


def test_intervals_in_rounds_do_not_look_at_the_clock():
    available = build(inline=[["Singapore", 0, 2]], unit="rounds", absent="always")
    seen = [available.draw(t, 1e6).tolist() for t in range(4)]
    assert seen == [[True, True, True], [True, True, True], [True, False, True], [True, False, True]]


def test_clients_without_intervals():
    assert build(inline=[], absent="always").draw(0, 0.0).all()
    assert not build(inline=[]).draw(0, 0.0).any()
    assert at_s(build(inline=[[2, 5, 6]], absent="always"), 0, 5) == [[True, True, False], [True, True, True]]


def test_a_name_goes_before_a_number():
    assert at_s(build(inline=[["7", 0, 1]]), 0) == [[False, False, True]]
    assert at_s(build(inline=[[1, 0, 1]]), 0) == [[False, True, False]]


def test_names_of_the_scenarios_network_are_found():
    plugin = AVAILABILITY.of({"name": "trace", "inline": [["b", 0, 1]]})
    network = NETWORKS.of({"name": "star", "names": ["a", "b"]})
    available = plugin.build(SimpleNamespace(clients=2, network=network), Streams(0))
    assert at_s(available, 0) == [[False, True]]


def test_repetition():
    available = build(inline=[[0, 1, 2], [1, 0, 1], [1, 2, 3]], period=3)
    assert at_s(available, 1, 4, 7.5) == [[True, False, False]] * 3
    assert at_s(available, 2, 3, 5.25, 6) == [[False, True, False]] * 4
    nightly = build(inline=[[0, 1, 2]], unit="rounds", period=2)
    assert [bool(nightly.draw(t, 0.0)[0]) for t in range(6)] == [False, True] * 3


def test_overlaps_are_one_interval():
    available = build(inline=[[0, 0, 2], [0, 1, 3]])
    assert [row[0] for row in at_s(available, 0, 1.5, 2.5, 3)] == [True, True, True, False]


@pytest.mark.parametrize(("header", "unit"), [("client,start_s,end_s", "s"), ("client, start_round, end_round", "r")])
def test_csv_files(tmp_path, header, unit):
    (tmp_path / "t.csv").write_text(f"{header}\nBoston,0,2\n\n1,1,2\n 7 ,1,3\n")
    available = build(tmp_path, path="t.csv")
    seen = [available.draw(t if unit == "r" else 9, float(t) if unit == "s" else 9.0).tolist() for t in range(3)]
    assert seen == [[True, False, False], [True, True, True], [False, False, True]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv: the header must be client,start_s,end_s or client,start_round,end_round"),
        ("client,start,end\n", "t.csv:1: the header must be"),
        ("client,start_s,end_s\n0,1\n", "t.csv:2: 2 values for 3 columns"),
        ("client,start_s,end_s\n0,1,x\n", "t.csv:2: start and end must be numbers"),
        ("client,start_s,end_s\n0,0,1\n\n0,2,1\n", "t.csv:4: an interval needs 0 <= start <= end, not 2 to 1"),
        ("client,start_s,end_s\n0,-1,1\n", "t.csv:2: an interval needs"),
        ("client,start_s,end_s\n0,nan,1\n", "t.csv:2: start and end must be numbers"),
        ("client,start_s,end_s\n0,0,inf\n", "t.csv:2: an interval needs"),
        ("client,start_s,end_s\n0,0,11\n", "t.csv:2: the interval ends at 11, after the period of 10"),
        ("client,start_s,end_s\n3,0,1\n", "t.csv:2: there is no client '3' among 3"),
        ("client,start_s,end_s\n-1,0,1\n", "t.csv:2: there is no client '-1'"),
        ("client,start_s,end_s\nBostn,0,1\n", "t.csv:2: there is no client 'Bostn' among 3; did you mean 'Boston'"),
        (f"client,start_s,end_s\n{'9' * 100},0,1\n", "t.csv:2: there is no client '999"),
        (f"client,start_s,end_s\n{'9' * 5000},0,1\n", "t.csv:2: a value has control characters or more than 200"),
        ('client,start_s,end_s\n"a\nb",0,1\n', "t.csv:3: a value has control characters"),
        ("client,start_s,end_s\n\u00b2,0,1\n", "t.csv:2: there is no client"),
    ],
)
def test_broken_files_name_the_line(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ScenarioError, match=f"^path: {message}"):
        build(tmp_path, path="t.csv", period=10)


def test_broken_inline_intervals():
    plugin = AVAILABILITY.of({"name": "trace", "inline": [[0, 1, 2], [0, 2, 2], [0, 1, 9]], "period": 5})
    found = dict(plugin.check(SimpleNamespace(clients=1)))
    assert set(found) == {"inline.1", "inline.2"}
    assert [key for key, _ in AVAILABILITY.of("trace").check(None)] == ["path"]
    with pytest.raises(ScenarioError, match=r"^inline.0: there is no client 'x'"):
        build(inline=[["x", 0, 1]])


def test_long_traces_are_looked_up_at_once():
    rng = np.random.default_rng(0)
    start = rng.integers(0, 50, 400).astype(float)
    rows = [
        [int(c), s, s + d] for c, s, d in zip(rng.integers(0, 20, 400), start, rng.integers(1, 5, 400), strict=True)
    ]
    available = build(clients=20, names=None, inline=rows)
    for now in (0.0, 7.5, 20.0, 53.0):
        expected = [any(c == i and s <= now < e for c, s, e in rows) for i in range(20)]
        assert available.draw(0, now).tolist() == expected


PERIODS = "client,start_s,end_s,period_s\n0,1,2,4\n0,3,3,4\n1,0,1,3\n"


def test_a_file_has_a_period_for_each_client_and_may_have_empty_intervals(tmp_path):
    (tmp_path / "t.csv").write_text(PERIODS)
    available = build(tmp_path, path="t.csv", names=None)
    for now in np.arange(0, 25, 0.5).tolist():
        assert available.draw(0, now).tolist() == [1 <= now % 4 < 2, now % 3 < 1, False]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0,2,3,5\n", "t.csv:5: the period of client '0' is 5 here and 4 before"),
        ("2,1,2,0\n", "t.csv:5: a period must be greater than 0, not 0"),
        ("2,1,2,\n", "t.csv:5: start and end must be numbers, and the period too"),
        ("2,1,9,8\n", "t.csv:5: the interval ends at 9, after the period of 8"),
    ],
)
def test_broken_periods_name_the_line(tmp_path, line, message):
    (tmp_path / "t.csv").write_text(PERIODS + line)
    with pytest.raises(ScenarioError, match=f"^path: {message}"):
        build(tmp_path, path="t.csv", names=None)
    with pytest.raises(ScenarioError, match="^period: t.csv has a period for each client; leave this one out"):
        build(tmp_path, path="t.csv", names=None, period=10)
