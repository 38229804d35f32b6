"""Every lie shows the victim's update where nobody checks, and none where clients do; honest rounds go on."""

import json
from collections import Counter

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.agents.test_client_agents import events, table

BASE = """clients: 8
selection: {name: batch_partition, k: 4, T: 2, mode: uniform}
training: {name: lying_server, lie: models, victim: 3, rounds: 24, weighting: equal}
learning: {name: none, parameters: 10}
secagg: ideal
devices: {computation: {name: constant, seconds: 1}}
"""
INNER = {"batch": "{name: batch_partition, k: 4, T: 2, mode: uniform}",
         "half": "{name: half_partition, k: 4, T: 2, mode: uniform}"}  # fmt: skip


def played(tmp_path, lie, inner, checks, *more):
    selection = f"{{name: verifiable, inner: {INNER[inner]}}}" if checks else INNER[inner]
    overrides = [f"selection={selection}", f"training.lie={lie}", "trace=events", *more]
    folder = run(Scenario.parse(BASE, "t", overrides), tmp_path).path
    return folder, json.loads((folder / "summary.json").read_text())


def summed(folder):
    """Whether each client is in what the server has learned of each round, as a matrix."""
    P = np.zeros((24, 8))
    for line in (folder / "participation.csv").read_text().splitlines()[1:]:
        t, client, weight = line.split(",")[:3]
        P[int(t), int(client)] = float(weight)
    return P


def shows(P, client):
    """Whether a combination of what was learned is the client's update alone."""
    unit = np.eye(8)[client]
    return np.linalg.matrix_rank(np.vstack([P, unit])) == np.linalg.matrix_rank(P)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("lie", ["selects", "models", "dropouts", "replays"])
def test_a_lie_gains_the_victims_update_only_where_nobody_checks(lie, inner, tmp_path):
    folder, summary = played(tmp_path / "believed", lie, inner, checks=False)
    assert shows(summed(folder), 3)
    assert summary["privacy_semi_strong"] == 1 and summary["guarantee_semi_strong"] == 1
    assert summary["refusing_clients"] == 0 and "guarantee_malicious" not in summary
    folder, summary = played(tmp_path / "checked", lie, inner, checks=True)
    P = summed(folder)
    assert not any(shows(P, client) for client in range(8))
    assert summary["refusing_clients"] > 0
    if P.any():
        assert summary["privacy_semi_strong"] >= summary["guarantee_malicious"] == 2
    else:
        assert lie == "selects"


def test_each_client_has_written_down_what_it_was_told(tmp_path):
    folder, _ = played(tmp_path, "models", "batch", True)
    told = [each for each in events(folder) if each["event"] == "told"]
    by_round = {}
    for each in told:
        by_round.setdefault(each["round"], {})[each["client"]] = each["objections"]
    assert set(by_round) == set(range(24))
    refused = [t for t, of in by_round.items() if any(of.values())]
    assert all(of == dict.fromkeys(of, []) for t, of in by_round.items() if t not in refused)
    for t in refused:
        assert {client: objections for client, objections in by_round[t].items() if objections} == {
            2: ["unit"], 3: ["unit"]}  # fmt: skip
    skipped = [int(row["round"]) for row in table(folder) if row["skipped"] == "1"]
    assert skipped == refused and refused


def test_clients_of_the_servers_own_in_a_unit_are_seen_by_no_check(tmp_path):
    folder, summary = played(tmp_path, "sybils", "batch", True, "training.sybils=[2]")
    assert summary["refusing_clients"] == 0 and summary["privacy_semi_strong"] == 1
    assert summary["guarantee_malicious"] == 1
    rest = summed(folder)[:, [0, 1, 4, 5, 6, 7]]
    assert (rest[:, ::2] == rest[:, 1::2]).all()


@pytest.mark.parametrize("overrides, key", [
    (["training.victim=8"], "training.victim"), (["training.sybils=[1]"], "training.sybils"),
    (["secagg=plain"], "training"), (["secagg=secagg"], "training"),
])  # fmt: skip
def test_what_is_not_simulated_is_refused(overrides, key):
    with pytest.raises(ScenarioError, match=key):
        Scenario.parse(BASE, "t", overrides)


def test_a_round_is_said_again_as_it_was_also_where_some_are_away(tmp_path):
    """Its row is that of the beacon: what shows that it is played again is its number, and nothing else."""
    away = "devices.availability={name: bernoulli, dropout: 0.25}"
    folder, _ = played(tmp_path, "replays", "batch", True, away)
    there = Counter((each["round"], tuple(each["objections"])) for each in events(folder) if each["event"] == "told")
    again = {t for t, objections in there if "once" in objections}
    assert again and all(objections in ((), ("once",)) for t, objections in there)
    assert {sum(there[t, of] for of in ((), ("once",))) for t in again} != {4}  # some were away
