"""The use of a shared link: from messages, from rounds, in the figure, in the timeline and in theory."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli.theory import command as theory
from simfl.report import draw
from simfl.report.figures import NothingToDraw
from simfl.results.perfetto import Traffic, mean_rates
from simfl.runs.run import run
from simfl.scenario import Scenario

TEXT = """
clients: 12
network: {name: star, latency_s: 0.1, server: {down_bytes_per_s: 8000, up_bytes_per_s: 16000}}
devices: {computation: 0.5}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 3}
learning: {name: none, parameters: 1000}
privacy: none
"""


@pytest.mark.parametrize("trace", ["rounds", "events"])
def test_the_figure_shows_all_bytes_once(tmp_path, trace):
    overrides = [] if trace == "rounds" else ["trace=events"]
    done = run(Scenario.parse(TEXT, "s", overrides), tmp_path)
    _, table = draw("link_use", done.path)
    for side, limit, sent in (("down", 8000, 48000), ("up", 16000, 48000)):
        rows = table[table["side"] == side]
        middle_s, use = rows["time_s"].to_numpy(), rows["use"].to_numpy()
        width_s = done.summary["time_s"] / len(rows)
        assert np.allclose(np.diff(middle_s), width_s) and (use <= 1 + 1e-9).all()
        assert (use * limit * width_s).sum() == pytest.approx(sent)


def test_without_a_shared_link_there_is_nothing_to_draw(tmp_path):
    done = run(Scenario.parse(TEXT, "s", ["network.server={}"]), tmp_path)
    with pytest.raises(NothingToDraw, match="network.server"):
        draw("link_use", done.path)


def test_the_timeline_has_a_curve_for_each_direction(tmp_path):
    for server, sides in (({}, set()), ({"down_bytes_per_s": 8000}, {"down", "up"})):
        timeline = tmp_path / "timeline.json"
        run(
            Scenario.parse(TEXT, "s", ["trace=events", f"network.server={json.dumps(server)}"]),
            tmp_path,
            timeline=timeline,
        )
        counters = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "C"]
        assert {event["name"].rpartition(" ")[2] for event in counters} == sides
        assert not counters or max(event["args"]["bytes_per_s"] for event in counters) <= 16000 / 0.1 + 1


def test_what_is_given_up_counts_as_far_as_it_came():
    """Half of a message of 100 bytes; mean rates over any bins keep the sum."""
    message = {"event": "message", "from": 3, "to": -1, "bytes": 100, "sent_s": 1.0, "arrives_s": 3.0}
    cancel = {"event": "cancel", "client": 3, "time_s": 2.0}
    times_s, rate = Traffic([message, cancel]).rates("up")
    edges_s = np.linspace(0, 4, 7)
    assert (mean_rates(times_s, rate, edges_s) * np.diff(edges_s)).sum() == pytest.approx(50)


def test_theory_says_a_round_of_equal_clients(tmp_path):
    """With and without sharing: 4 models of 4,000 bytes each way."""
    file = tmp_path / "s.yaml"
    file.write_text(TEXT)
    said = [json.loads(CliRunner().invoke(theory, [str(file), *more, "--json"]).stdout)["secagg"]
            for more in ([], ["network.server={}"])]  # fmt: skip
    found = said[0]["transfer_s"]
    assert found == pytest.approx({"alone": 0.75, "shared": 3.0})
    done = run(Scenario.load(Path(file)), tmp_path)
    assert done.summary["time_s"] == pytest.approx(3 * (0.2 + 0.5 + found["shared"]))
    assert "transfer_s" not in said[1]


NAMED = """
clients: 4
network:
  name: graph
  edges: [[server, hub, 0.1], [hub, a, 0.1], [hub, b, 0.1]]
  clients: [a, b]
  placement: cycle
  server: {name: server, down_bytes_per_s: 9000}
  shared:
    trunk: {edges: [[server, hub]], bytes_per_s: 8000, up_bytes_per_s: 16000}
    branch: {edges: [[hub, b]], bytes_per_s: 2000}
devices: {computation: 0.5}
selection: all
training: {name: fedavg, rounds: 3}
learning: {name: none, parameters: 1000}
privacy: none
trace: events
"""


def test_each_named_link_has_its_panel_and_its_bytes(tmp_path):
    """Four models of 4,000 bytes each way and round, half of them over the branch."""
    done = run(Scenario.parse(NAMED, "s"), tmp_path)
    fig, table = draw("link_use", done.path)
    titles = {axes.get_title(loc="left").replace("\n", " ") for axes in fig.axes}
    assert titles == {f"{link}: {side}" for link in ("server", "trunk", "branch")
                      for side in ("from the server", "to the server")}  # fmt: skip
    limits = {("server", "down"): 9000, ("trunk", "down"): 8000, ("trunk", "up"): 16000, ("branch", "down"): 2000,
              ("branch", "up"): 2000}  # fmt: skip
    assert set(zip(table["link"], table["side"], strict=True)) == set(limits)
    for (link, side), limit in limits.items():
        rows = table[(table["link"] == link) & (table["side"] == side)]
        sent = (rows["use"] * limit).sum() * done.summary["time_s"] / len(rows)
        assert sent == pytest.approx(24000 if link == "branch" else 48000)
        assert (rows["use"] <= 1 + 1e-9).all()
    assert all(axes.get_ylim()[0] == 0 and axes.get_ylim()[1] >= table["use"].max() for axes in fig.axes)


def test_without_events_only_the_servers_link_is_shown(tmp_path):
    done = run(Scenario.parse(NAMED, "s", ["trace=rounds"]), tmp_path)
    _, table = draw("link_use", done.path)
    assert set(table["link"]) == {"server"}
    done = run(Scenario.parse(NAMED, "s", ["trace=rounds", "network.server=server"]), tmp_path)
    with pytest.raises(NothingToDraw, match="trace: events"):
        draw("link_use", done.path)


@pytest.mark.parametrize(
    "server, more", [("{name: server, down_bytes_per_s: 9000}", {"server's link"}), ("server", set())]
)
def test_the_timeline_has_curves_of_named_links(tmp_path, server, more):
    timeline = tmp_path / "timeline.json"
    run(Scenario.parse(NAMED, "s", [f"network.server={server}"]), tmp_path, timeline=timeline)
    counters = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "C"]
    names = {"trunk", "branch"} | more
    assert {event["name"] for event in counters} == {f"{name}, {side}" for name in names for side in ("down", "up")}
    branch = [event["args"]["bytes_per_s"] for event in counters if event["name"].startswith("branch")]
    assert 0 < max(branch) <= 2000


def test_theory_says_nothing_of_messages_over_several_links(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(NAMED)
    said = json.loads(CliRunner().invoke(theory, [str(file), "--json"]).stdout)["secagg"]
    assert "transfer_s" not in said and said["latency_s"] == pytest.approx(0.2)
