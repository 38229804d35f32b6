"""What a run tells about its clients: samples, labels and latencies as they were in it."""

import numpy as np
import pandas
import pytest

from simfl.core.rng import Streams
from simfl.core.types import SERVER
from simfl.report import draw, read_study
from simfl.report.figures.base import NothingToDraw
from simfl.runs import clients_table
from simfl.runs.clients_table import FEW, MOST_CELLS
from simfl.runs.run import build, run
from simfl.scenario import Scenario

LEARNED = """
name: told
clients: 7
network: {name: graph, edges: [[server, a, 0.5], [a, b, 0.25], [b, c, 0.125], [c, d, 1]], placement: random}
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 1}
learning: {data: digits, partition: {name: dirichlet, beta: 0.3}, model: logistic}
"""
STAR = """
name: star
clients: 5
network: {name: star, latency_s: [0.25, 0.5, 1, 2, 4], names: ["1", "NA", "null", "a,b", "nan"]}
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 1}
learning: none
"""


def test_samples_and_labels_are_those_that_were_trained_on(tmp_path):
    scenario = Scenario.parse(LEARNED, "told")
    folder = run(scenario, tmp_path).path
    table = pandas.read_csv(folder / "clients.csv")
    learner = build(scenario).learner
    assert list(table.client) == list(range(7)) and list(table.samples) == list(learner.samples)
    for client in range(7):
        held = learner.data.y_train[learner.partition[client]]
        assert [table.loc[client, f"label {digit}"] for digit in range(10)] == list(np.bincount(held, minlength=10))
    drawn = draw("labels", folder)[1]
    assert drawn.iloc[:, 1:].to_numpy().sum() == len(learner.data.y_train) and list(drawn.columns[1:]) == list(
        "0123456789"
    )


def test_latencies_are_those_of_empty_messages_without_jitter(tmp_path):
    scenario = Scenario.parse(LEARNED, "told")
    folder = run(scenario, tmp_path).path
    links = scenario.network.build(scenario, Streams(scenario.seed))
    pairs = pandas.read_csv(folder / "latency.csv")
    assert len(pairs) == 8 * 7 and set(pairs["from"]) == {SERVER, *range(7)}
    np.testing.assert_array_equal(pairs.latency_s, links.latency_s(pairs["from"].to_numpy(), pairs["to"].to_numpy()))
    up = pairs[pairs["to"] == SERVER].set_index("from").latency_s
    clients = pandas.read_csv(folder / "clients.csv")
    assert list(clients.latency_s) == [up[i] for i in range(7)]
    assert set(clients.latency_s) <= {0.5, 0.75, 0.875, 1.875}


def test_a_star_by_hand(tmp_path):
    scenario = Scenario.parse(STAR.replace(', names: ["1", "NA", "null", "a,b", "nan"]', ""), "star")
    folder = run(scenario, tmp_path).path
    assert (folder / "clients.csv").read_text().splitlines() == [
        "client,name,samples,latency_s", "0,,1,0.25", "1,,1,0.5", "2,,1,1.0", "3,,1,2.0", "4,,1,4.0"]  # fmt: skip
    pairs = pandas.read_csv(folder / "latency.csv").set_index(["from", "to"]).latency_s
    assert pairs[3, 1] == 2.5 and pairs[SERVER, 4] == 4.0
    with pytest.raises(NothingToDraw, match="nothing is learned from data"):
        draw("labels", folder)


def test_names_stay_what_they_are(tmp_path):
    folder = run(Scenario.parse(STAR, "star"), tmp_path).path
    assert set(draw("latency", folder)[1][["from", "to"]].to_numpy().ravel()) == {
        "server",
        "1",
        "NA",
        "null",
        "a,b",
        "nan",
    }


@pytest.mark.parametrize("dtype", [None, str, object])
def test_only_numbers_that_are_missing_are_empty(dtype):
    names = ["a", "nan", "", "NaN", "e"]
    columns = {
        "name": names if dtype is None else np.array(names, dtype=dtype),
        "exact": np.array([0.1, np.nan, 1, -0.0, np.inf]),
        "short": np.array([0.1, np.nan, 1, 2, 3], dtype=np.float32),
        "count": np.arange(5),
    }
    assert clients_table._table(columns).decode().splitlines()[1:] == [
        "a,0.1,0.1,0", "nan,,,1", ",1.0,1.0,2", "NaN,-0.0,2.0,3", "e,inf,3.0,4"]  # fmt: skip


def test_of_many_clients_less_is_told(tmp_path):
    text = STAR.replace(STAR.splitlines()[3], "network: {name: star, latency_s: 0.5}")
    scenario = Scenario.parse(text, "star", [f"clients={FEW + 1}"])
    folder = run(scenario, tmp_path).path
    assert not (folder / "latency.csv").exists() and len(draw("latency", folder)[1])
    scenario = Scenario.parse(text, "star", [f"clients={MOST_CELLS // 4 + 1}"])
    folder = run(scenario, tmp_path).path
    assert not (folder / "clients.csv").exists()
    with pytest.raises(NothingToDraw, match="too many clients"):
        draw("latency", folder)


def test_the_report_builds_no_scenario(tmp_path, monkeypatch):
    folder = run(Scenario.parse(LEARNED, "told"), tmp_path).path

    def built(*_, **__):
        raise AssertionError("a report reads results and nothing else")

    monkeypatch.setattr(Scenario, "load", built)
    study = read_study([folder])
    for name in ("labels", "latency", "participation"):
        draw(name, study)
