"""A server of a user's: keys that it does not obey are refused, and what it does is seen whatever is beside it."""

import json

import pytest

from simfl.cli.validate import run_preflight
from simfl.core.errors import ScenarioError
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.agents.test_client_agents import AGENTS, BASE, events, table
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it
from tests.support.kills import files, killed_at_time
from tests.support.search import PLUGINS

OWN = ["plugins=[own_agents.py, relay.py]", "training={name: triples, rounds: 8, deadline_s: 3, on_failure: drop_unit}",
       "selection={name: random, k: 3}"]  # fmt: skip


def made(overrides):
    return Scenario.parse(BASE, "t", [*OWN, *overrides], PLUGINS)


@pytest.mark.parametrize("overrides", [[], ["secagg={name: secagg, deadline_s: 3}"], ["network.loss=0.1"]])
def test_its_messages_are_written_and_a_protocol_sums_them(overrides, tmp_path):
    folder = run(made(overrides), tmp_path).path
    messages = [each for each in events(folder) if each["event"] == "message"]
    models = [each for each in messages if each["kind"] == "model"]
    assert len(models) == 24 and {each["to"] for each in models} == set(range(8))
    rows = table(folder)
    assert sum(int(row["cardinality"]) for row in rows) > 8
    assert all(float(b["time_s"]) - float(a["time_s"]) <= 3 + 1e-9 for a, b in zip(rows, rows[1:])) or "secagg" in str(
        overrides
    )
    assert sum(int(row["bytes_down"]) for row in rows) >= sum(each["bytes"] for each in models)
    if "secagg" in str(overrides):
        assert {each["kind"] for each in messages} >= {"advertise", "share", "unmask"}


def test_a_protocol_gives_the_model_that_sums_without_it_do(tmp_path):
    learns = [
        "learning={data: digits, model: logistic}",
        "training.batch_size=50",
        "devices.failure=none",
        "trace=rounds",
    ]
    plain, masked = (
        table(run(made([*learns, *more]), tmp_path / name).path)
        for name, more in (("plain", []), ("masked", ["secagg={name: secagg, deadline_s: 3}"]))
    )
    for a, b in zip(plain, masked, strict=True):
        assert (a["cardinality"], b["cardinality"]) == ("3", "3") or a["cardinality"] == b["cardinality"]
        assert float(a["test_loss"]) == pytest.approx(float(b["test_loss"]), abs=1e-3)


@pytest.mark.parametrize("overrides", [[], ["secagg={name: secagg, deadline_s: 3}"], ["network.loss=0.1"]])
def test_its_clients_can_be_processes_and_have_agents(overrides, tmp_path):
    arrays = files(run(made(overrides), tmp_path / "arrays").path)
    assert files(run(made([*overrides, "agents.engine=processes"]), tmp_path / "processes").path) == arrays
    scenario = made([*overrides, f"agents.client={AGENTS[0]}"])
    expected = files(run(scenario, tmp_path / "own").path)
    for i, row in enumerate(table(next((tmp_path / "own").glob("*/*")))[1:-1:2]):
        out = tmp_path / str(i)
        assert killed_at_time(float(row["time_s"]) + 0.3, lambda out=out: run(scenario, out))
        assert files(run(scenario, out).path) == expected


@pytest.mark.parametrize("key", ["quorum=2", "on_failure=abort", "deadline_s=2"])
def test_keys_that_it_does_not_obey_are_refused(key, tmp_path, monkeypatch):
    from simfl.agents.servers import SERVERS

    scenario = made([f"training.{key}"])
    reads = SERVERS["triples"].reads - {key.partition("=")[0]}
    monkeypatch.setattr(SERVERS["triples"], "reads", reads)
    with pytest.raises(ScenarioError, match=rf"training.{key.partition('=')[0]}: server 'triples' does not read it"):
        run(scenario, tmp_path)
    assert not list(tmp_path.glob("*/*/rounds.csv*"))
    assert [p.key for p in run_preflight(scenario).problems] == [f"training.{key.partition('=')[0]}"]


def test_promises_of_the_class_that_it_derives_from_are_not_its_own(tmp_path, monkeypatch):
    from simfl.agents.servers import SERVERS

    scenario = made(["training.quorum=2"])
    monkeypatch.delattr(SERVERS["triples"], "reads")
    with pytest.raises(ScenarioError, match="does not read it"):
        run(scenario, tmp_path)
    assert json.dumps(sorted(SERVERS["synchronous"].reads)) == '["deadline_s", "on_failure", "quorum"]'
