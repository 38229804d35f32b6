"""Clients with agents of their own: what they send, who hears it, what a kill leaves, and what is said of those that
err.
"""

import csv
import json
from collections import Counter, defaultdict

import numpy as np
import pytest
import yaml

from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.core.scenario_view import dropout_rates, failure_rates, has_buffer, never_fails
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.agents.test_engines import drawn
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it
from tests.support.kills import files, killed_at_time
from tests.support.search import PLUGINS, impatient
from tests.support.sizes import repeats

BASE = """
name: small
seed: 3
clients: 8
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}, jitter_s: {name: exponential, mean: 0.05}}
devices:
  computation: {name: random, distribution: {name: exponential, mean: 0.5}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 6, on_failure: drop_unit, deadline_s: 4}
learning: {name: none, parameters: 10, samples: 5}
privacy: none
trace: events
plugins: [own_agents.py]
"""
BUFFERED = ["training={name: fedbuff, buffer: 3, concurrency: 6, rounds: 8, deadline_s: 4}"]
MASKED = ["secagg={name: secagg, deadline_s: 3}"]
OF_BUFFERS = [*BUFFERED, "training.weighting=equal", "secagg={name: basecagg, deadline_s: 3}"]
LOSS = ["network.loss=0.25"]
AGENTS = (
    "again",
    "for_ever",
    "patient",
    "{name: dozing, online_s: 0.6, offline_s: 0.3}",
    "{name: dozing, online_s: 1, offline_s: 0.3, work: restarts}",
)


def made(overrides, text=BASE):
    return Scenario.parse(text, "t", overrides, PLUGINS)


def events(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def table(folder, name="rounds.csv"):
    with open(folder / name) as lines:
        return list(csv.DictReader(lines))


def rounded(rows):
    """Their cells, numbers to nine digits."""
    return [{key: f"{float(cell):.9g}" if cell.replace(".", "").isdigit() else cell for key, cell in row.items()}
            for row in rows]  # fmt: skip


@pytest.mark.parametrize("part", range(3))
def test_the_standard_agents_text_has_the_bytes_of_the_standard_agent(part, tmp_path):
    """In any random scenario, with mailbox, messages of its own and an order of events of its own; where a round of
    standard clients over shared links is computed at once, up to roundings.
    """
    compared = 0
    for number in range(1000 + part, 1000 + repeats(60, 1500), 3):
        text, overrides = drawn(number)
        data = yaml.safe_load(text)
        data["plugins"] = [*data.get("plugins", []), "own_agents.py"]
        found = []
        for agent in ("standard", "plain_text"):
            try:
                scenario = made([*overrides, f"agents.client={agent}"], yaml.safe_dump(data))
                with impatient():
                    folder = run(scenario, tmp_path / agent, force=True).path
            except InvalidScenario:  # of what agents of clients' own are refused beside
                break
            except SimflError as error:
                found.append(str(error))
                continue
            heard = files(folder)
            lines = sorted(heard.pop("events.jsonl", b"").splitlines())
            for name in ("rounds.csv", "summary.json", "index.csv", "metrics.csv", "columns.json", "scenario.yaml"):
                heard.pop(name, None)
            rows = [{key: value for key, value in row.items() if key != "bytes_sent_up"} for row in table(folder)]
            found.append((heard, rows, lines))
        if len(found) == 2 and not (scenario.network.independent or has_buffer(scenario.training)):
            one, other = (each if isinstance(each, str) else rounded(each[1]) for each in found)
            assert type(one) is type(other) and (one == other or isinstance(one, str)), f"scenario {number}"
        elif len(found) == 2:
            assert found[0] == found[1], f"scenario {number}"
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("overrides", [LOSS, [*LOSS, *BUFFERED], [*LOSS, *MASKED], ["network.loss=0.03", *OF_BUFFERS]])
@pytest.mark.parametrize("agent", AGENTS)
def test_each_message_is_sent_by_a_rule(agent, overrides, tmp_path):
    """Read from the events alone: nothing is sent before it could be, each client has one process, and who is summed
    has been heard.
    """
    folder = run(made([*overrides, f"agents.client={agent}"]), tmp_path).path
    messages = [each for each in events(folder) if each["event"] == "message"]
    models, updates, works = defaultdict(list), defaultdict(list), defaultdict(list)
    for each in messages:
        assert each["arrives_s"] >= each["sent_s"]
        if each["kind"] == "model":
            models[each["to"]].append(each)
        elif each["kind"] == "update":
            updates[each["from"]].append(each)
    for each in events(folder):
        if each["event"] == "compute":
            works[each["client"]].append((each["start_s"], each["end_s"], each["completed"]))
    assert any(len(sent) > len([w for w in works[client] if w[2]]) for client, sent in updates.items())
    for client, intervals in works.items():
        intervals.sort()
        assert all(first[1] <= second[0] for first, second in zip(intervals, intervals[1:]))  # one at a time
        arrivals = [each["arrives_s"] for each in models[client] if not each.get("lost")]
        assert intervals[0][0] >= min(arrivals)
    for client, sent in updates.items():
        ends = [end for _, end, completed in works[client] if completed]
        assert all(any(end <= each["sent_s"] for end in ends) for each in sent)
    arrived = Counter(each["from"] for sent in updates.values() for each in sent if not each.get("lost"))
    summed = Counter(int(row["client"]) for row in table(folder, "participation.csv"))
    assert all(count <= arrived[client] for client, count in summed.items())
    rows = table(folder)
    clear = "secagg" not in str(overrides)
    total = sum(int(row["bytes_sent_up"]) for row in rows)
    traced = sum(each["bytes"] for each in messages if each["to"] == -1)
    assert total <= traced if clear else total > 0
    assert all(int(row["bytes_up"]) <= int(row["bytes_sent_up"]) for row in rows) or "fedbuff" in str(overrides)


def test_who_sends_again_is_summed_as_often_as_probability_says(tmp_path):
    """A model arrives with 1 - p, and one of four updates with 1 - p^4; no deadline cuts that short."""
    p, rounds, k = 0.3, 400, 4
    calm = [f"network.loss={p}", "devices.failure=none", f"training.rounds={rounds}", "training.deadline_s=100"]
    means = {}
    for agent, heard in (("standard", (1 - p) ** 2), ("again", (1 - p) * (1 - p**4))):
        folder = run(made([*calm, f"agents.client={agent}"]), tmp_path).path
        means[agent] = np.mean([float(row["cardinality"]) for row in table(folder)]) / k
        assert abs(means[agent] - heard) < 4 * (heard * (1 - heard) / (rounds * k)) ** 0.5, means
    assert means["again"] > means["standard"] + 0.1


def test_an_update_that_comes_again_counts_once(tmp_path):
    """Acknowledgements are lost, so that clients whose update was heard send it again: it is in no second sum."""
    folder = run(made([*LOSS, "agents.client=again", "training.deadline_s=20", "devices.failure=none"]), tmp_path).path
    heard = Counter()
    ends = [each["time_s"] for each in events(folder) if each["event"] == "round_end"]
    for each in events(folder):
        if each["event"] == "message" and each["kind"] == "update" and not each.get("lost"):
            heard[int(np.searchsorted(ends, each["arrives_s"])), each["from"]] += 1
    assert max(heard.values()) > 1
    summed = Counter((int(row["round"]), int(row["client"])) for row in table(folder, "participation.csv"))
    assert max(summed.values()) == 1 and set(summed) <= set(heard)
    assert sum(int(row["bytes_up"]) for row in table(folder)) == 40 * len(summed)


@pytest.mark.parametrize(
    "overrides", [LOSS, [*LOSS, *BUFFERED], [*LOSS, *MASKED], ["network.loss=0.03", *OF_BUFFERS], BUFFERED]
)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_kill_at_any_event_leaves_the_same_bytes(agent, overrides, tmp_path):
    scenario = made([*overrides, f"agents.client={agent}"])
    whole = run(scenario, tmp_path / "whole").path
    expected = files(whole)
    times = sorted(
        {each[key] for each in events(whole) for key in ("time_s", "sent_s", "arrives_s", "end_s") if key in each}
    )
    last_s = float(table(whole)[-1]["time_s"])
    times = [time_s for time_s in times if time_s < last_s]
    for i in range(0, len(times), max(1, len(times) // repeats(3, len(times)))):
        out = tmp_path / str(i)
        assert killed_at_time(times[i], lambda out=out: run(scenario, out))
        assert files(run(scenario, out).path) == expected, times[i]


def test_groups_do_what_they_are_told_and_others_are_standard(tmp_path):
    """Who is named, or drawn by the seed, sends again; all others send once."""
    groups = "groups: [{agent: again, clients: '0-2, 5'}, {agent: plain_text, share: 0.5}]"
    calm = ["devices.failure=none", "training.deadline_s=30", "training.rounds=40"]
    folder = run(made([*LOSS, *calm, f"agents.client={{name: mixed, {groups}}}"]), tmp_path).path
    sent = Counter()
    for each in events(folder):
        if each["event"] == "message" and each["kind"] == "update":
            sent[each["from"], each["bytes"]] += 1
    works = Counter(each["client"] for each in events(folder) if each["event"] == "compute")
    assert {client for client in works if sent[client, 40] > works[client]} == {0, 1, 2, 5}
    assert all(sent[client, 40] == works[client] for client in (3, 4, 6, 7))


@pytest.mark.parametrize("overrides", [[], BUFFERED])
def test_nobody_takes_part_before_joining_or_after_leaving(overrides, tmp_path):
    """The joining times are read again from their own stream; standard clients are there to the end."""
    stays = "" if overrides else ", stays_for_s: 6"
    agent = f"{{name: joining, joins_s: {{name: uniform, low: 0, high: 8}}{stays}}}"
    scenario = made([*overrides, "training.rounds=20", f"agents.client={agent}"])
    folder = run(scenario, tmp_path).path
    stays_s = scenario.agents.client.stays_s(8, Streams(3))
    asked = defaultdict(list)
    for each in events(folder):
        if each["event"] == "message" and each["kind"] == "model":
            asked[each["to"]].append(each["sent_s"])
    assert asked and np.ptp(stays_s[:, 0]) > 3
    for client, times in asked.items():
        assert stays_s[client, 0] <= min(times)
        begins = [each["time_s"] for each in events(folder) if each["event"] == "round_start"]
        assert any(stays_s[client, 0] <= begin < stays_s[client, 1] for begin in begins) or overrides
        if not overrides:
            assert max(times) < stays_s[client, 1]
    if not overrides:
        assert int(table(folder)[-1]["skipped"]) > 0  # all have left


def test_of_a_mixture_those_who_join_late_are_asked_late(tmp_path):
    groups = "{agent: {name: joining, joins_s: 4}, clients: 0-3}, {agent: again, clients: 4-5}"
    folder = run(made(["training.rounds=20", f"agents.client={{name: mixed, groups: [{groups}]}}"]), tmp_path).path
    first = {}
    for each in events(folder):
        if each["event"] == "message" and each["kind"] == "model":
            first.setdefault(each["to"], each["sent_s"])
    assert len(first) == 8 and all((time_s >= 4) == (client < 4) for client, time_s in first.items())


def test_claims_in_advance_know_nothing_of_own_agents():
    """Who is lost, how often, and who is available is not known of clients with agents of their own."""
    calm = ["devices.failure=none", "training.deadline_s=null"]
    assert never_fails(made(calm)) and failure_rates(made(calm)) is not None and dropout_rates(made(calm)) is not None
    for agent in ("again", "{name: mixed, groups: [{agent: again, share: 0.1}]}"):
        scenario = made([*calm, f"agents.client={agent}"])
        assert not never_fails(scenario) and failure_rates(scenario) is None
    joins = made([*calm, "agents.client={name: joining, joins_s: 1}"])
    assert dropout_rates(joins) is None and not never_fails(joins)


def test_the_timeline_names_what_was_lost(tmp_path):
    """As many lost messages on it as in the events, and each send of an update."""
    folder = run(made([*LOSS, "agents.client=again"]), tmp_path, timeline=tmp_path / "t.json").path
    spans = Counter(span["name"] for span in json.loads((tmp_path / "t.json").read_text())["traceEvents"])
    seen = Counter((each["kind"], each.get("lost", False)) for each in events(folder) if each["event"] == "message")
    names = {"update": "upload", "model": "download", "acknowledgement": "acknowledgement"}
    for (kind, lost), count in seen.items():
        if kind in names:
            assert spans[names[kind] + (" (lost)" if lost else "")] == count
    assert spans["upload (lost)"] > 3


def test_dozing_clients_are_online_as_often_as_their_means_say(tmp_path):
    """The share of models that are read at once is the share of time that a client is online."""
    calm = ["devices.failure=none", "training.deadline_s=200", "training.rounds=300", "devices.computation=0"]
    agent = "{name: dozing, online_s: 3, offline_s: 1}"
    folder = run(made([*calm, "clients=200", f"agents.client={agent}"]), tmp_path).path
    read = {each["job"]: each["start_s"] for each in events(folder) if each["event"] == "compute"}
    came = [(each["to"], each["arrives_s"]) for each in events(folder) if each.get("kind") == "model"]
    begun = Counter((job & 0xFFFFFFFF, start_s) for job, start_s in read.items())
    at_once = sum((client, time_s) in begun for client, time_s in came)
    assert abs(at_once / len(came) - 0.75) < 4 * (0.75 * 0.25 / len(came)) ** 0.5


@pytest.mark.parametrize("overrides", [LOSS, [*LOSS, *BUFFERED]])
@pytest.mark.parametrize("agent", AGENTS[:3])
def test_a_kill_among_ties_leaves_the_same_bytes(agent, overrides, tmp_path):
    """All messages and works fall on few instants, at which clients go on in the order of their numbers."""
    tied = ["network.latency_s=0.25", "network.jitter_s=0", "devices.computation=0.5"]
    scenario = made([*overrides, *tied, f"agents.client={agent}"])
    whole = run(scenario, tmp_path / "whole").path
    expected, last_s = files(whole), float(table(whole)[-1]["time_s"])
    times = sorted({each[key] for each in events(whole) for key in ("time_s", "arrives_s", "end_s") if key in each})
    times = [time_s for time_s in times if time_s < last_s]
    for i in range(0, len(times), max(1, len(times) // repeats(4, len(times)))):
        out = tmp_path / str(i)
        assert killed_at_time(times[i], lambda out=out: run(scenario, out))
        assert files(run(scenario, out).path) == expected, times[i]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", "ValueError: no such thing"),
        ("never answers", "without an answer"),
        ("waits", "waits for what cannot come"),
        ("yields a number", "waits for a int"),
        ("yields twice the same", "waits for a Wait"),
        ("forgets yield", "write yield before it"),
        ("forgets yield at the end", "write yield before it"),
        ("loops", "without letting time pass"),
        ("sleeps backwards", "gives -1 as seconds"),
        ("sleeps for a word", "gives 'long' as seconds"),
        ("trains twice", "trains a request twice"),
        ("makes up a request", "none of its requests"),
        ("replies without work", "not the update of that request"),
        ("listens to nobody", "receives 'gossip'"),
        ("never receives", "without receiving"),
        ("keeps a word", "keeps 'word' in memory"),
    ],
)
@pytest.mark.parametrize("overrides", [["training.deadline_s=null"], [*BUFFERED, "training.deadline_s=null"]])
def test_an_agent_that_errs_ends_with_one_line(how, words, overrides, tmp_path):
    scenario = made([*overrides, f"agents.client={{name: errs, how: {how}}}", "devices.failure=none"])
    with pytest.raises(SimflError) as caught:
        run(scenario, tmp_path)
    line = str(caught.value)
    assert words in line and "client/" in line and "'errs'" in line and " s: " in line, line
    assert "\n" not in line and caught.value.exit_code == 2


def test_an_agent_that_cannot_be_stopped_is_said(tmp_path):
    scenario = made(["agents.client={name: errs, how: does not end}", "training.deadline_s=1"])
    with pytest.raises(SimflError, match="does not end when it is stopped"):
        run(scenario, tmp_path)


def test_an_agent_without_yield_is_said(tmp_path):
    with pytest.raises(SimflError, match="run must give a generator, of a function with yield, not NoneType"):
        run(made(["agents.client=no_generator"]), tmp_path)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["agents.client={name: patient, attempts: 0}"], "agents.client.attempts"),
        (["agents.client={name: mixed, groups: [{agent: again}]}"], "agents.client.groups"),
        (["agents.client={name: mixed, groups: [{agent: again, clients: 3-9}]}"], "there are 8 clients"),
        (["agents.client={name: mixed, groups: [{agent: again, clients: many}]}"], "groups"),
        (["agents.client={name: mixed, groups: [{agent: agian, clients: 3-4}]}"], "did you mean 'again'"),
        (["agents.client={name: joining, joins_s: [1, 2]}"], "joins_s"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(overrides, key):
    with pytest.raises(InvalidScenario, match=key):
        made(["agents.client=again", *overrides])


DECIDING = """
name: deciding
clients: 12
agents: {client: {name: deciding, loss_from: 1.0}}
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
devices: {computation: {name: random, distribution: {name: exponential, mean: 0.5}}}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 6, deadline_s: 5, batch_size: 20}
learning: {data: digits, model: logistic}
trace: events
"""
BUFFER = "training={name: fedbuff, rounds: 6, buffer: 3, concurrency: 6, deadline_s: 5, batch_size: 20}"


@pytest.mark.parametrize("overrides", [[], [BUFFER], ["topology={name: tree, edges: 2}", "selection.k=3"]])
def test_who_decides_sends_only_where_the_model_fits_badly(overrides, tmp_path):
    """The first model fits nobody; later fewer send, as the threshold says, and a kill changes nothing."""
    sent = {}
    for loss_from in (0.0, 1.0):
        who = f"{{agent: {{name: deciding, loss_from: {loss_from}}}, clients: 0-7}}"
        keys = [*overrides, f"agents.client={{name: mixed, groups: [{who}]}}"]
        scenario = Scenario.parse(DECIDING, "t", keys)
        folder = run(scenario, tmp_path / "whole").path
        records = [each for each in events(folder) if each.get("client", each.get("from", -1)) in range(8)]
        works = sum(each["event"] == "compute" and each["completed"] is True for each in records)
        sent[loss_from] = sum(each.get("kind") == "update" for each in records) / works
        end_s = float(table(folder)[-1]["time_s"])
        killed_at_time(0.6 * end_s, lambda scenario=scenario: run(scenario, tmp_path / "killed"))
        assert files(run(scenario, tmp_path / "killed").path) == files(folder)
    assert sent[0.0] == 1 and 0 < sent[1.0] < 0.9


def test_who_sends_as_its_loss_says_hides_nobody(tmp_path):
    """No protocol and no epsilon covers the choice; without any the columns are 1 and the summary says why."""
    equal = ["training.weighting=equal"]
    noise = [*equal, "privacy={stages: [{name: central_gaussian, noise_multiplier: 1, clip_norm: 1}]}"]
    mixed = "agents.client={name: mixed, groups: [{agent: {name: deciding, loss_from: 1}, clients: 0-1}]}"
    batches = ["selection={name: batch_partition, k: 6, T: 3}", *equal]
    for keys in (["secagg=ideal"], ["secagg={name: secagg, deadline_s: 3}"], [mixed, "secagg=ideal"], noise):
        with pytest.raises(InvalidScenario, match="the choice whether to send"):
            Scenario.parse(DECIDING, "t", keys)
    hidden = run(Scenario.parse(DECIDING, "t", ["agents.client=standard", *batches]), tmp_path)
    for agent in ("agents.client.loss_from=0", mixed):
        shown = run(Scenario.parse(DECIDING, "t", [agent, *batches]), tmp_path)
        assert shown.summary["privacy_weak_lower"] == 1 < hidden.summary["privacy_weak_lower"]
        assert shown.summary["privacy_strong"] == 1 and "the choice whether to send" in shown.summary["beside_sums"]
    for keys, says in (
        (["training.deadline_s=null"], "give training.deadline_s"),
        (["learning={name: none, parameters: 4}"], "reads losses"),
    ):
        with pytest.raises(InvalidScenario, match=f"agents.client: .*{says}"):
            Scenario.parse(DECIDING, "t", keys)


def test_an_agent_reads_data_only_if_it_says_so(tmp_path):
    with pytest.raises(SimflError, match="agent 'reader' evaluates a model, and it or .* does not say so"):
        run(made(["agents.client=reader"]), tmp_path)
    with pytest.raises(SimflError, match="agent 'hasty' evaluates the model of a request before its work is done"):
        run(Scenario.parse(DECIDING, "t", ["plugins=[own_agents.py]", "agents.client=hasty"], PLUGINS), tmp_path)
