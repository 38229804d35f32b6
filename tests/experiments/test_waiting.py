"""Working and waiting time: what a run spends in rounds that sum nothing, reckoned by hand for every server."""

import csv
import json

import pytest

import simfl
from simfl.experiments.compare.run_numbers import Course, measures, skipped_text, unequal_sums, waiting_s
from simfl.report.advice import cautions
from simfl.report.study import Run
from simfl.report.study_reader import read_study

pytestmark = pytest.mark.usefixtures("sweeps_here")

AWAY = {"name": "trace", "unit": "rounds", "inline": [[i, a, b] for i in range(4) for a, b in ((0, 1), (3, 4))]}
"""All four clients are there in rounds 0 and 3, nobody is in rounds 1, 2 and 4."""

ONE_S = {"name": "random", "distribution": 0.5}
BASE = {
    "name": "waits", "clients": 4, "selection": {"name": "random", "k": 2}, "learning": "none", "privacy": "none",
    "network": {"name": "star", "latency_s": 0.25}, "devices": {"availability": AWAY, "computation": ONE_S},
    "training": {"name": "fedavg", "rounds": 5, "skipped_round_s": 7.0},
}  # fmt: skip
WORK_S = 0.25 + 0.5 + 0.25
"""Of a round in which two clients work side by side: there, computing, and back."""


def numbers(tmp_path, changes):
    """The final numbers of a run, and its folder."""
    done = simfl.run({**BASE, **changes}, out=tmp_path)
    return Run.open(done.path).finals, done.path


def by_budget(path, rounds):
    """Waiting time after so many rounds."""
    from simfl.core.columns import ROUND_COLUMNS

    return Course.read(path / "rounds.csv", ROUND_COLUMNS).at({"rounds": rounds})["rounds"].get("waiting_s")


def test_a_synchronous_server_waits_as_long_as_skipped_rounds_take(tmp_path):
    found, path = numbers(tmp_path, {})
    assert found["skipped"] == 3 and found["time_s"] == pytest.approx(2 * WORK_S + 3 * 7)
    assert found["waiting_s"] == pytest.approx(21)
    assert [by_budget(path, n) for n in range(1, 6)] == pytest.approx([0, 7, 14, 14, 21])


@pytest.mark.parametrize("training", ["serverless", "gossip"])
def test_clients_without_a_server_wait_too(training, tmp_path):
    """Models go from client to client, .25 s to the server's place and .25 s from there, after .5 s of work."""
    changes = {"training": {"name": training, "rounds": 5, "skipped_round_s": 3.0}}
    found, _ = numbers(tmp_path, changes)
    assert found["waiting_s"] == pytest.approx(9) and found["time_s"] > 9


@pytest.mark.parametrize(
    ("topology", "way_s"),
    [({"name": "tree", "edges": 2, "latency_s": 0.5}, 1.0), ({"name": "servers", "servers": 2, "latency_s": 0.5}, 0.0)],
)
def test_a_tree_waits_where_no_edge_sums(topology, way_s, tmp_path):
    """Each of two edges selects one of its two clients; a skipped round takes the edges' 7 s and the way to them."""
    found, path = numbers(tmp_path, {"topology": topology, "selection": {"name": "random", "k": 1}})
    rows = list(csv.DictReader((path / "rounds.csv").open()))
    ends = [0.0, *(float(row["time_s"]) for row in rows)]
    lengths = [after - before for before, after in zip(ends[:-1], ends[1:], strict=True)]
    assert [int(row["skipped"]) for row in rows] == [0, 1, 1, 0, 1]
    extra = lengths[0] - WORK_S  # what the exchange of edges' models takes
    assert extra >= way_s and lengths == pytest.approx([extra + each for each in (WORK_S, 7, 7, WORK_S, 7)])
    assert found["waiting_s"] == pytest.approx(3 * (7 + extra))


def test_a_sum_that_is_given_up_is_waited_for(tmp_path):
    """Who fails aborts the round: it sums nothing, and all of its time counts, whatever the clients did."""
    devices = {"computation": ONE_S, "failure": {"name": "bernoulli", "probability": 1.0}}
    training = {"name": "fedavg", "rounds": 3, "skipped_round_s": 7.0, "deadline_s": 2.0}
    found, _ = numbers(tmp_path, {"devices": devices, "training": training})
    assert found["skipped"] == 3 and found["waiting_s"] == found["time_s"] > 0


def test_who_never_skips_has_waited_for_nothing(tmp_path):
    found, _ = numbers(tmp_path, {"devices": {"computation": ONE_S}})
    assert found["waiting_s"] == 0 and found["time_s"] == pytest.approx(5 * WORK_S)


@pytest.mark.parametrize("training", ["fedbuff", "fedasync", "flsim", "fedbuff_paper"])
def test_overlapping_rounds_have_no_waiting_time(training, tmp_path):
    """Between two aggregations of a buffered server others work: nothing is said, also not 0."""
    rule = {"name": training, "rounds": 5, "concurrency": 2} | ({} if training == "fedasync" else {"buffer": 2})
    found, path = numbers(tmp_path, {"devices": {"computation": ONE_S}, "training": rule})
    assert "waiting_s" not in found and by_budget(path, 3) is None


def test_waiting_is_a_sum_of_differences():
    def row(time_s, cardinality, stale=""):
        return {"time_s": str(time_s), "cardinality": str(cardinality), "staleness_mean": stale}

    rows = [row(0.1, 0), row(0.3, 2), row(0.6, 0), row(1.0, 3)]
    assert waiting_s(rows) == pytest.approx(0.1 + 0.3) and waiting_s([]) == 0
    assert waiting_s([*rows, row(2.0, 1, "0.5")]) is None
    assert "waiting_s" not in measures({"skipped": 2, "rounds": 4, "time_s": 1.0})


def test_words_say_what_decides_time(tmp_path):
    found, path = numbers(tmp_path, {})
    (said,) = [text for text in cautions(read_study([path])) if "skipped" in text]
    assert "skipped 3 of 5 rounds" in said and "of 23 s of simulated time 21 passed waiting in them, 7 s each" in said
    assert "training.skipped_round_s" in said
    assert skipped_text({"skipped": 1, "rounds": 40, "time_s": 40.0, "waiting_s": 1.0}) == ""
    assert "20 passed" in skipped_text({"skipped": 1, "rounds": 40, "time_s": 40.0, "waiting_s": 20.0}), "long ones"


def test_tables_show_it_beside_time_only_where_there_is_any(tmp_path):
    from simfl.core.column_files import read_columns
    from simfl.experiments.compare.table_choice import default_columns

    for name, devices in (("some", BASE["devices"]), ("none", {"computation": ONE_S})):
        compared = simfl.compare(
            {**BASE, "name": name, "devices": devices}, {"selection.k": [1, 2]}, out=tmp_path, replications=2
        )
        document = json.loads((compared.path / "comparison.json").read_text())
        shown = [column.name for column in default_columns(document, read_columns(document["columns"]))]
        assert [each for each in shown if each.endswith("_s")] == ["time_s", "waiting_s"][: 1 + (name == "some")]
        waits = {row["choice"]: row["mean"] for row in document["means"] if row["metric"] == "waiting_s"}
        assert list(waits.values()) == pytest.approx([21, 21] if name == "some" else [0, 0])


def test_unequal_numbers_of_sums_are_said():
    assert unequal_sums({}) == unequal_sums({"a": None}) == unequal_sums({"a": 0.0, "b": 0.0}) == ""
    assert unequal_sums({"a": 20.0, "b": 18.5, "c": None}) == "", "less than a tenth apart"
    assert unequal_sums({"a": 20.0, "b": 0.0}).startswith("runs have 0 (b) to 20 (a) sums each")
