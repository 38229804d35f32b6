"""The battery of docs/examples: who works is away until it has charged, with every server and engine."""

from collections import defaultdict
from pathlib import Path

import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.agents.test_client_agents import AGENTS, BASE, BUFFERED, events, table
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it
from tests.support.kills import files, killed_at_time
from tests.support.search import PLUGINS

EXAMPLE = Path(__file__).parents[2] / "docs/examples/battery.py"
DRAINED = ["devices.availability={name: battery, charge_s: 30}", "selection={name: random, k: 2}"]


def made(overrides):
    return Scenario.parse(BASE, "t", [f"plugins=[own_agents.py, {EXAMPLE}]", *DRAINED, *overrides], PLUGINS)


def test_it_is_one_short_file():
    assert len(EXAMPLE.read_text().splitlines()) <= 45
    assert sum(bool(line.strip()) for line in EXAMPLE.read_text().splitlines()) <= 40


@pytest.mark.parametrize("overrides", [["training.rounds=30"], [*BUFFERED, "training.rounds=30"]])
@pytest.mark.parametrize("agent", ["standard", "plain_text", AGENTS[0], AGENTS[3]])
def test_levels_recomputed_from_the_events_allow_every_start(agent, overrides, tmp_path):
    """Charge and work of each client, read from the trace by a rule of its own."""
    folder = run(made([*overrides, f"agents.client={agent}", "devices.failure=none"]), tmp_path).path
    first = Streams(3)("battery").random(8)
    seen = events(folder)
    # work counts when the round, or the job, has ended; what is under way then is what has been worked so far
    works, models = defaultdict(list), []
    for each in seen:
        if each["event"] == "compute":
            works[each["client"]].append((each["start_s"], each["end_s"]))
        elif each["event"] == "message" and each["kind"] == "model":
            models.append((each["sent_s"], each["to"]))
    for sent_s, client in models:
        ended = sum(end - start for start, end in works[client] if end <= sent_s)
        highest = first[client] + sent_s / 30 - ended / 4  # what is lost by being full makes it less
        assert min(1.0, highest) >= 0.5 - 1e-9 or ended / 4 > first[client]  # a level stays at 0 at least
    assert len({client for _, client in models}) > 2
    assert sum(len(each) for each in works.values()) > 20


def test_who_works_much_is_asked_less(tmp_path):
    """Batteries that never charge allow each client as many jobs as last."""
    still = ["devices.availability={name: battery, charge_s: 1e9, least: 0.01}", "training.rounds=40",
             "devices.computation={name: per_sample, seconds: 0.2}", "devices.failure=none",
             "selection.k=1"]  # fmt: skip
    folder = run(made(still), tmp_path).path
    worked = defaultdict(float)
    for each in events(folder):
        if each["event"] == "compute":
            worked[each["client"]] += each["end_s"] - each["start_s"]
    first = Streams(3)("battery").random(8)
    for client, seconds in worked.items():
        assert seconds <= 4.0 * first[client] + 1.0 + 1e-9  # the last job may empty it
    assert sum(int(row["skipped"]) for row in table(folder)) > 0


@pytest.mark.parametrize("overrides", [[], BUFFERED])
@pytest.mark.parametrize("agent", ["standard", AGENTS[1]])
def test_it_goes_on_after_a_kill_and_on_either_engine(agent, overrides, tmp_path):
    scenario = made([*overrides, f"agents.client={agent}"])
    expected = files(run(scenario, tmp_path / "whole").path)
    times = [float(row["time_s"]) for row in table(next((tmp_path / "whole").glob("*/*")))]
    for i, time_s in enumerate(times[:-1:2]):
        out = tmp_path / str(i)
        assert killed_at_time(time_s, lambda out=out: run(scenario, out))
        assert files(run(scenario, out).path) == expected
    if agent == "standard":
        processes = made([*overrides, "agents.engine=processes"])
        assert files(run(processes, tmp_path / "processes").path) == expected


def test_a_server_that_does_not_tell_refuses_it(tmp_path):
    drawn = "{name: fedbuff, rounds: 3, concurrency: 4, buffer: 2, deadline_s: null, arrivals: uniform_staleness}"
    with pytest.raises(ScenarioError, match="devices.availability"):
        run(made([f"training={drawn}", "selection={name: random, k: 2}"]), tmp_path)
