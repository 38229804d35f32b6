"""What a run tells about its clients: samples, labels and latencies as they were in it."""

import gzip

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.core.errors import IntegrityError
from simfl.core.rng import Streams
from simfl.core.types import SERVER
from simfl.deployment.audit.reading import read as read_log
from simfl.report import draw, read_study
from simfl.report.figures.base import NothingToDraw
from simfl.report.live.watched_folder import WatchedFolder
from simfl.runs import clients_table
from simfl.runs.clients_table import FEW, PLAIN
from simfl.runs.finalise import _table
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
    assert b"".join(clients_table._pieces(columns)).decode().splitlines()[1:] == [
        "a,0.1,0.1,0", "nan,,,1", ",1.0,1.0,2", "NaN,-0.0,2.0,3", "e,inf,3.0,4"]  # fmt: skip


def test_of_many_clients_the_table_is_compressed_with_all_its_columns(tmp_path):
    """No time and no name in the file (RFC 1952): the same bytes from the same scenario, wherever it is written."""
    scenario = Scenario.parse(LEARNED, "told", [f"clients={PLAIN + 1}", "network={name: star, latency_s: 0.5}"])
    one, other = (run(scenario, tmp_path / name).path for name in "ab")
    data = (one / "clients.csv.gz").read_bytes()
    assert data == (other / "clients.csv.gz").read_bytes() and not (one / "clients.csv").exists()
    assert data[:4] == b"\x1f\x8b\x08\x00" and data[4:8] == bytes(4), "no flags, and no time"
    table, learner = read_study([one]).groups[0].first.clients_table, build(scenario).learner
    assert gzip.decompress(data).decode().splitlines()[1].startswith("0,,")
    assert list(table.client) == list(range(PLAIN + 1)) and list(table.samples) == list(learner.samples)
    np.testing.assert_array_equal(table[[f"label {digit}" for digit in range(10)]], learner.labels.counts)
    assert "left_out" not in read_study([one]).groups[0].first.summary
    few = run(Scenario.parse(STAR, "star"), tmp_path).path
    (few / "clients.csv").read_text()  # up to so many it is plain
    with pytest.raises(IntegrityError, match=r"clients.csv.gz: damaged"):
        (one / "clients.csv.gz").write_bytes(data[:-1])
        read_study([one]).groups[0].first.clients_table.size  # noqa: B018


def test_audits_and_metrics_read_a_compressed_table(tmp_path):
    text = LEARNED.replace("clients: 7", f"clients: {PLAIN + 1}")
    text = text.replace("network: {name: graph", "network: {name: star} #")
    folder = run(Scenario.parse(text, "told"), tmp_path).path
    samples = read_study([folder]).groups[0].first.clients_table.samples
    assert read_log(folder).samples.tolist() == samples.tolist()
    assert _table(folder / "clients.csv").samples.tolist() == samples.tolist()
    assert WatchedFolder(folder).look()["runs"][0]["state"] == "done"


def test_of_more_cells_less_is_told_and_the_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(clients_table, "MOST_CELLS", 14 * 7 - 1)
    folder = run(Scenario.parse(LEARNED, "told"), tmp_path / "labels").path
    first = read_study([folder]).groups[0].first
    assert list(first.clients_table) == ["client", "name", "samples", "latency_s"]
    assert first.summary["left_out"] == ["the label counts of clients.csv (98 cells; 97 are the most)"]
    monkeypatch.setattr(clients_table, "MOST_CELLS", 4 * 7 - 1)
    file = tmp_path / "told.yaml"
    file.write_text(LEARNED + "  evaluate: {every: 1}\n" if LEARNED.endswith("model: logistic\n") else LEARNED)
    ended = CliRunner().invoke(simfl, ["run", str(file), "--out", str(tmp_path / "none")])
    assert ended.exit_code == 0, ended.output
    assert "left out, as there are so many clients: clients.csv (28 cells; 27 are the most)" in ended.stderr
    (folder,) = (tmp_path / "none" / "told").iterdir()
    assert not list(folder.glob("clients.csv*"))
    with pytest.raises(NothingToDraw, match="too many clients"):
        draw("latency", folder)


def test_of_many_clients_only_the_latencies_to_the_server_are_told(tmp_path):
    text = STAR.replace(STAR.splitlines()[3], "network: {name: star, latency_s: 0.5}")
    scenario = Scenario.parse(text, "star", [f"clients={FEW + 1}"])
    folder = run(scenario, tmp_path).path
    assert not (folder / "latency.csv").exists() and len(draw("latency", folder)[1])


def test_the_report_builds_no_scenario(tmp_path, monkeypatch):
    folder = run(Scenario.parse(LEARNED, "told"), tmp_path).path

    def built(*_, **__):
        raise AssertionError("a report reads results and nothing else")

    monkeypatch.setattr(Scenario, "load", built)
    study = read_study([folder])
    for name in ("labels", "latency", "participation"):
        draw(name, study)
