"""The shipped latency scenarios, against the thesis' table and against real round-trip times
(docs/papers/latency.md)."""

import json
from pathlib import Path

import pandas
import pytest

from simfl.core.rng import Address, Streams
from simfl.core.storage.data_folder import data_root
from simfl.runs.run import run
from simfl.scenario import Scenario

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def test_federated_weights_arrive_as_in_table_5_3(tmp_path):
    path = run(Scenario.load(SCENARIOS / "privacyfl_latency.yaml", ["trace=events"]), tmp_path).path
    arrivals, starts = {}, {}
    for event in map(json.loads, open(path / "events.jsonl")):
        if event["event"] == "round_start":
            t = event["round"]
            starts[t] = event["time_s"]
        elif event["event"] == "message" and event["kind"] == "announcement":
            arrivals[t, event["to"]] = event["arrives_s"] - starts[t]
    boston, singapore, new_york = range(3)
    expected = {(t, c): s for t in (0, 1) for c, s in ((boston, 4.31), (singapore, 6.01), (new_york, 4.11))}
    assert arrivals == pytest.approx(expected | {(2, boston): 0.91, (2, new_york): 0.71})


def test_cities_use_half_the_measured_round_trip():
    if data_root() is None or not (data_root() / "latency/city_rtt_avg_ms.csv").exists():
        pytest.skip("no measured round-trip times in the data folder")
    scenario = Scenario.load(SCENARIOS / "cities.yaml")
    assert scenario.network.rtt == "measured"
    links = scenario.network.build(scenario, Streams(scenario.seed))
    table = pandas.read_csv(data_root() / "latency/city_rtt_avg_ms.csv", index_col=0)
    import numpy as np

    clients = np.arange(scenario.clients)
    expected = [table.loc[scenario.network.server, name.split("#")[0].strip()] / 2000 for name in links.names]
    found = links.down_s(clients, 0, Address(0, clients, scenario.clients))
    assert found == pytest.approx(np.array(expected), nan_ok=True)
