"""Runs are true: random scenarios, a third of them full of exact ties, judged by their tables alone.

Ten thousand: ``benchmarks/reliability.py --size nightly --only 7``.
"""

import json

import numpy as np
import pytest

from simfl.agents.aggregation import exchange
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.buffered.dispatcher import Dispatcher
from simfl.agents.synchronous import SynchronousServer
from simfl.api.result_objects import Result
from simfl.core.errors import SimflError
from simfl.core.types import Aggregate
from simfl.runs.run import run, verify
from simfl.scenario import Scenario
from tests.support.invariants import violations
from tests.support.random_scenarios import random_scenario
from tests.support.search import PLUGINS, broken, impatient
from tests.support.sizes import repeats

E1 = """
clients: 2
network: {name: star, latency_s: [0.25, 0.5]}
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 4, deadline_s: 1.0, on_failure: partial}
learning: {name: none, parameters: 10, samples: 1}
devices: {computation: {name: random, distribution: {name: empirical, values: [0.25, 0.5, 1.0]}}}
trace: events
"""
NO_DELAYS = """
clients: 4
devices: {failure: {name: bernoulli, probability: 0.5}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 30, on_failure: abort}
learning: {name: none, parameters: 10, samples: 1}
trace: events
"""


@pytest.fixture
def soon():
    with impatient():
        yield


@pytest.mark.parametrize("part", range(2))
def test_random_scenarios_keep_every_invariant(tmp_path, soon, part):
    number = repeats(12, 30)
    wrong, ends = broken(range(30 * part, 30 * part + number), tmp_path, seed=2026)
    assert not wrong
    assert ends["tied"] >= number // 10 and ends["not tied"] >= number // 5


def counts_what_is_late(monkeypatch):
    made = exchange.exchange

    def late(*arguments, **named):
        one = made(*arguments, **named)
        object.__setattr__(one, "responded", one.delays.lives)
        return one

    monkeypatch.setattr("simfl.agents.servers.exchange", late)


def sums_the_failed(monkeypatch):
    monkeypatch.setattr(
        "simfl.agents.synchronous.jobs_in_sum",
        lambda jobs, done, units: sorted(jobs, key=lambda job: job.client),
    )


def breaks_units(monkeypatch):
    monkeypatch.setattr(
        "simfl.secagg.base.Plain.add",
        lambda self, done, given, streams: Aggregate(np.zeros(given.vectors.shape[1], np.float32), given.clients[1:],
                                                 given.row[1:]),
    )  # fmt: skip
    made = GlobalModelState.aggregate

    def aggregate(self, jobs, staleness, *rest, **named):
        return made(self, jobs[1:], None if staleness is None else staleness[1:], *rest, **named)

    monkeypatch.setattr(GlobalModelState, "aggregate", aggregate)


def forgets_bytes(monkeypatch):
    monkeypatch.setattr(exchange.Exchange, "bytes_up", property(lambda self: int(self.delays.up_bytes.sum())))


def has_one_slot_too_many(monkeypatch):
    made = Dispatcher.__init__

    def more(self, *arguments):
        made(self, *arguments)
        self.free += 1

    monkeypatch.setattr(Dispatcher, "__init__", more)


def selects_the_busy(monkeypatch):
    made = Dispatcher._start

    def start(self, flights):
        made(self, flights)
        self.busy[:] = False

    monkeypatch.setattr(Dispatcher, "_start", start)


def weighs_wrongly(monkeypatch):
    from simfl.training.fedbuff import FedBuff

    made = FedBuff.row
    monkeypatch.setattr(FedBuff, "row", lambda self, staleness: made(self, staleness + 1))


def forgets_the_failed(monkeypatch):
    def row(self, parts):
        return {"failed": 0, "bytes_down": self.bytes_down, "bytes_up": self.bytes_up}

    monkeypatch.setattr("simfl.agents.aggregation.components.RoundCosts.row", row)


def tells_the_wrong_round(monkeypatch):
    made = SynchronousServer.note

    def note(self, event, **record):
        made(self, event, **record | ({"round": record["round"] + 1} if event == "round_start" else {}))

    monkeypatch.setattr(SynchronousServer, "note", note)


DEFECTS = {counts_what_is_late: 10, sums_the_failed: 36, breaks_units: 5, forgets_bytes: 24, has_one_slot_too_many: 0,
           selects_the_busy: 0, weighs_wrongly: 7, forgets_the_failed: 3, tells_the_wrong_round: 6}  # fmt: skip
"""Each with the number of the first random scenario that shows it, which is tried first."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_search_finds_a_server_that_does_wrong(tmp_path, soon, monkeypatch, defect):
    """The same search, on a simulator with a defect."""
    defect(monkeypatch)
    for number in (DEFECTS[defect], *range(120)):
        scenario, _ = random_scenario(np.random.default_rng([2026, number]))
        try:
            if violations(run(scenario, tmp_path, force=True).path):
                return
        except (SimflError, AssertionError, IndexError, KeyError, ValueError):
            continue
    raise AssertionError("nothing was found")


WRONG_RINGS = {
    "forgets a neighbour": (
        "sorted({i, (i + 1) % n, (i - 1) % n})",
        "sorted({i, (i + 1) % n})",
    ),
    "does not wait": ("float(np.max(arrives))", "float(np.min(arrives))"),
    "counts bytes twice": ("bytes_up += 2 * n", "bytes_up += 4 * n"),
    "leaves somebody out": (
        "sides = [(everybody + step) % n for",
        "sides = [(everybody - everybody % 2 + step) % n for",
    ),
}


@pytest.mark.parametrize("defect", WRONG_RINGS)
def test_a_wrong_ring_is_found(tmp_path, defect):
    name = defect.replace(" ", "_")
    before, after = WRONG_RINGS[defect]
    text = (PLUGINS / "gossip.py").read_text()
    assert text.count(before) == 1
    for old, new in ((before, after), ('"ring_gossip"', f'"{name}"'), ('"ring"', f'"ring_{name}"')):
        text = text.replace(old, new)
    (tmp_path / "ring.py").write_text(text)
    rule = "{name: RULE, rounds: 3, batch_size: 8}"
    scenario = f"""
    clients: 12
    network: {{name: star, latency_s: {{name: uniform, low: 0.1, high: 0.5}}}}
    devices: {{computation: {{name: random, distribution: {{name: exponential, mean: 1}}}}}}
    selection: all
    training: {rule}
    learning:
      data: {{name: synthetic, samples: 40, test_samples: 10, shape: [3], classes: 2}}
      partition: {{name: dirichlet, beta: 0.1, over: clients}}
      model: logistic
    privacy: none
    trace: events
    plugins: [ring.py, PLUGIN]
    """.replace("PLUGIN", str(PLUGINS / "gossip.py"))
    sound = run(Scenario.parse(scenario.replace("RULE", "ring_gossip"), "s", folder=tmp_path), tmp_path)
    assert not violations(sound.path)
    assert violations(run(Scenario.parse(scenario.replace("RULE", name), "s", folder=tmp_path), tmp_path).path)


def events(done, kind):
    return [event for event in map(json.loads, open(done.path / "events.jsonl")) if event.get("kind") == kind]


def test_an_update_of_an_earlier_round_never_counts(tmp_path):
    """E1: what arrives after a round's deadline, also at the instant of the next hand-over, counts nowhere."""
    for seed in range(8):
        done = run(Scenario.parse(E1, "s", [f"seed={seed}"]), tmp_path)
        assert not violations(done.path)
    plain = run(Scenario.parse(E1, "s", ["devices.computation=0.5"]), tmp_path)
    arrivals = {(m["from"], m["sent_s"]): m["arrives_s"] for m in events(plain, "update")}
    rounds = Result.open(plain.path).rounds
    assert rounds.cardinality.tolist() == [1] * 4, "client 1 takes 1.5 s and is late in every round"
    assert rounds.time_s.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert max(time for (client, _), time in arrivals.items() if client == 0) == 4.0
    assert set(verify(plain.path).values()) == {True}


def test_who_failed_in_a_round_is_not_in_its_sum_without_any_delay(tmp_path):
    """E1: with all delays 0 and abort, a round's failures are its own; nothing is left over."""
    for seed in range(8):
        done = run(Scenario.parse(NO_DELAYS, "s", [f"seed={seed}"]), tmp_path)
        assert not violations(done.path)
        rounds = Result.open(done.path).rounds
        assert (rounds.failed >= 0).all() and set(rounds.cardinality) <= {0, 4}
        assert ((rounds.cardinality == 4) == (rounds.failed == 0)).all()


@pytest.mark.parametrize("training", ["fedavg", "fedbuff, concurrency: 2, buffer: 2"])
def test_an_update_that_arrives_on_the_dot_counts(tmp_path, training):
    """A13: at exactly deadline_s, in FedAvg as in FedBuff."""
    text = f"""
    clients: 2
    network: {{name: star, latency_s: 0.25}}
    devices: {{computation: 0.5}}
    selection: {{name: random, k: 2}}
    training: {{name: {training}, rounds: 3, deadline_s: 1.0}}
    learning: {{name: none, parameters: 10, samples: 1}}
    trace: events
    """
    done = run(Scenario.parse(text, "s"), tmp_path)
    assert Result.open(done.path).rounds.cardinality.tolist() == [2, 2, 2]
    assert done.summary["failed"] == 0 and not violations(done.path)


def test_where_staleness_is_drawn_events_have_their_order_and_messages_their_bytes(tmp_path):
    """E11: nothing is noted before what happened earlier, and bytes are those of the messages."""
    text = """
    clients: 8
    devices: {availability: {name: bernoulli, dropout: 0.6}, failure: {name: bernoulli, probability: 0.3}}
    selection: {name: random, k: 2}
    training: {name: fedbuff, buffer: 4, rounds: 12, arrivals: {name: uniform_staleness, max: 3}}
    learning: {name: none, parameters: 10, samples: 1}
    trace: events
    """
    done = run(Scenario.parse(text, "s"), tmp_path)
    assert not violations(done.path)
    rounds = Result.open(done.path).rounds
    assert sum(m["bytes"] for m in events(done, "model")) == rounds.bytes_down.sum() > rounds.bytes_up.sum() > 0
    assert sum(m["bytes"] for m in events(done, "update")) == rounds.bytes_up.sum()
    assert len(events(done, "failure")) == rounds.failed.sum() > 0


@pytest.mark.parametrize("number", [32, 80, 217, 575])
def test_what_grows_old_while_a_protocol_recovers_is_discarded(tmp_path, soon, number):
    """With protocols that take time; max_staleness was asked when an update arrived, not when its turn came."""
    wrong, ends = broken([number], tmp_path, seed=1)
    assert not wrong and not ends["stalled"]


def test_weights_that_a_protocol_rounds_are_whole_and_near(tmp_path, soon):
    """Found by the search: BASecAgg weighs by whole numbers, here 45 and 46 of 64 instead of the root of a half."""
    wrong, ends = broken([349], tmp_path, seed=0)
    assert not wrong and not ends["stalled"]


@pytest.mark.slow
def test_two_thousand_random_scenarios(tmp_path, soon):
    wrong, ends = broken(range(1000, 3000), tmp_path, seed=2026)
    assert not wrong and ends["tied"] > 300
