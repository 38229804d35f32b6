"""Participants from a list."""

import gzip

import numpy as np
import pytest

import simfl
from simfl.core.errors import SimflError
from simfl.core.types import View
from simfl.selection.participant_list import GivenSelection

SMALL = {"clients": 12, "learning": {"name": "none"}, "training.rounds": 8}


def pairs(folder):
    return np.loadtxt(folder / "participation.csv", delimiter=",", skiprows=1, ndmin=2)[:, :2].astype(int).tolist()


def test_a_run_is_repeated_by_its_own_participants(tmp_path):
    """Nobody fails and all are there, so that who is selected takes part."""
    sure = SMALL | {"devices.availability": "always", "devices.failure": "none"}
    first = simfl.run("quickstart", sure, out=tmp_path).path
    table = first / "participation.csv"
    again = simfl.run("quickstart", sure | {"selection": {"name": "given", "path": str(table)}}, out=tmp_path).path
    assert pairs(again) == pairs(first)
    inline = [[client for t, client in pairs(first) if t == number] for number in range(8)]
    third = simfl.run("quickstart", sure | {"selection": {"name": "given", "rows": inline}}, out=tmp_path)
    assert third.path == again  # what the file holds counts, not where it lies


def test_who_is_away_is_not_selected():
    policy = GivenSelection(rows=((0, 2), (), (1,)), k=2)
    there = np.array([True, True, False])
    rng = np.random.default_rng(0)
    chosen = [policy.select(View(t, there, np.zeros(3, dtype=int)), None, rng).ravel().tolist() for t in range(4)]
    assert chosen == [[0], [], [1], []]


@pytest.mark.parametrize("form", ["plain", "gz", "semicolons", "utf-16"])
def test_forms_of_the_file(form, tmp_path):
    text = "round,client,weight\n0,3,1\n0,1,1\n2,4,2.5\n"
    if form == "semicolons":
        text = text.replace(",", ";")
    path = tmp_path / ("rows.csv.gz" if form == "gz" else "rows.csv")
    data = text.encode("utf-16" if form == "utf-16" else "utf-8")
    path.write_bytes(gzip.compress(data) if form == "gz" else data)
    chosen = simfl.load("quickstart", SMALL | {"training.rounds": 3, "selection": {"name": "given", "path": str(path)}})
    assert chosen.selection.rows == ((1, 3), (), (4,)) and chosen.selection.k == 2


@pytest.mark.parametrize("inside", [False, True])
def test_certificates_take_the_list_for_granted(inside, tmp_path):
    rows = {"name": "given", "rows": [[2 * t, 2 * t + 1] for t in range(4)]}
    policy = {"name": "guarded", "T": 2, "inner": rows} if inside else rows
    done = simfl.run("quickstart", SMALL | {"training.rounds": 4, "selection": policy}, out=tmp_path)
    assert "made without looking at the clients' data" in done.summary["privacy_assumes"]
    assert "made without looking" in (done.path / "columns.json").read_text()


def test_rounds_keep_their_numbers(tmp_path):
    """The first rounds of a run may have been skipped; they are skipped again."""
    path = tmp_path / "rows.csv"
    path.write_text("round,client\n2,4\n3,1\n")
    keys = SMALL | {"training.rounds": 4, "selection": {"name": "given", "path": str(path)}}
    assert simfl.load("quickstart", keys).selection.rows == ((), (), (4,), (1,))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("round,node\n0,1\n", "rows.csv:1: has the columns round, node; it needs round and client"),
        ("round,client\n0,x\n", "rows.csv:2: round and client must be whole numbers, not '0' and 'x'"),
        ("round,client\n0\n", "rows.csv:2: round and client must be whole numbers, not '0' and ''"),
        ("round,client\n0,99\n", "name client 99, and there are clients 0 to 11"),
        ("round,client\n0,1\n", "training.rounds is 8, whose nearest valid value is 1"),
        ("round,client\n0,1\n900000,1\n", "spans 900,001 rounds, and 200,000 are taken"),
        ("round,client\n", "name no client"),
        ("", "it needs round and client"),
        ("round,aggregator,client,weight\n0,3,1,1\n", "aggregator '3' is not the server"),
    ],
)
def test_what_is_no_such_list_is_refused(text, line, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(SimflError) as error:
        simfl.load("quickstart", SMALL | {"selection": {"name": "given", "path": str(path)}})
    assert line in str(error.value)


@pytest.mark.parametrize("rule", [{"name": "fedbuff", "rounds": 2, "concurrency": 4, "buffer": 2}])
def test_buffered_servers_refuse_it(rule):
    with pytest.raises(SimflError, match="use training: fedavg"):
        simfl.load("quickstart", SMALL | {"training": rule, "selection": {"name": "given", "rows": [[0], [1]]}})


def test_two_or_no_lists_are_refused():
    for keys in ({}, {"path": "rows.csv", "rows": [[1]]}):
        with pytest.raises(SimflError, match="give either path or rows"):
            simfl.load("quickstart", SMALL | {"selection": {"name": "given", **keys}})
