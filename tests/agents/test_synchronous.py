"""The synchronous server and its clients, on worlds small enough to work out by hand."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from simfl.agents.aggregation.components import Components
from simfl.agents.synchronous import SynchronousServer
from simfl.agents.world import World
from simfl.core.rng import Streams
from simfl.core.types import SERVER, Updates
from simfl.devices.base import Available
from simfl.learning.none import IdleLearner
from simfl.training.fedavg import FedAvg
from simfl.training.sgd_rule import Stop
from tests.support.policies import Blind

BYTES = 100


class Fixed(Blind):
    """Devices, links and a policy that do exactly what a test says."""

    name, fixed_size = "fixed", True
    on_work = Available.on_work

    def __init__(self, latency, compute=0.0, deaths=None, units=None, available=None, dropout=None):
        self.latency = np.asarray(latency, dtype=float)
        self.n = len(self.latency)
        self.compute = np.broadcast_to(np.asarray(compute, dtype=float), self.n)
        self.deaths = deaths or {}
        self.units = np.asarray([[i] for i in range(self.n)] if units is None else units, dtype=np.int32)
        self.available = available
        self.names = None
        self.dropout = dropout
        self.k, self.unit_size, self.fixed_size = self.units.size, self.units.shape[1], False

    def down_s(self, clients, size_bytes, where, phase=""):
        return self.latency[clients]

    up_s = down_s

    def duration_s(self, clients, samples, epochs, where):
        return self.compute[clients]

    def draw(self, *arguments):
        if len(arguments) == 2 and isinstance(arguments[0], int):
            round, _ = arguments
            return np.ones(self.n, bool) if self.available is None else np.asarray(self.available[round], dtype=bool)
        clients, where = arguments[:2]
        return np.array([self.deaths.get((where.selection_id, int(c)), np.nan) for c in clients])

    def select(self, view, k, rng):
        return self.units[view.available[self.units].all(axis=1)]

    def state(self):
        return {}

    restore = state


@dataclass
class Recorder(IdleLearner):
    """Remembers which jobs it was asked to train; an update is the client's number."""

    trained: list = field(default_factory=list)

    def __post_init__(self):
        self.dimension = 1

    def initial(self):
        return np.zeros(1, dtype=np.float32)

    def train(self, jobs):
        self.trained.append([job.client for job in jobs])
        clients = np.array([job.client for job in jobs])
        return Updates(clients[:, None].astype(np.float32), self.samples[clients], np.ones(len(jobs)))


def play(fixed, samples=5, **training):
    training = {"rounds": 1, "weighting": "equal"} | training
    learner = Recorder(BYTES, np.broadcast_to(np.asarray(samples, dtype=np.int64), fixed.n).copy())
    rule = FedAvg(**training)
    parts = Components(fixed.n, Streams(0), fixed, fixed, fixed, fixed, fixed, rule, learner, 0)
    rounds, events, world = [], [], World()
    server = SynchronousServer(parts, world, rounds.append, events.append)
    world.run(world.spawn(server.run()))
    return server, rounds, events


def test_a_round_lasts_as_long_as_its_slowest_client():
    server, (only,), _ = play(Fixed([0.5, 2.0, 1.0], compute=[3.0, 0.1, 1.0]))
    assert only.row["time_s"] == pytest.approx(max(0.5 + 3.0 + 0.5, 2.0 + 0.1 + 2.0, 1.0 + 1.0 + 1.0))
    assert only.clients.tolist() == [0, 1, 2]
    assert only.row["bytes_down"] == only.row["bytes_up"] == 3 * BYTES
    assert server.model[0] == pytest.approx((0 + 1 + 2) / 3)


def test_weights_arrive_as_in_the_thesis_table():
    """TH Table 5.3: Boston, Singapore, New York; Singapore gone after two iterations; 0.01 s of computation."""
    there = [[1, 1, 1], [1, 1, 1], [1, 0, 1]]
    _, rounds, events = play(Fixed([0.3, 2.0, 0.1], compute=0.01, available=there), rounds=3, announce=True)
    starts = [e["time_s"] for e in events if e["event"] == "round_start"]
    ends = [e["time_s"] for e in events if e["event"] == "round_end"]
    assert starts == [0.0, *ends[:-1]]
    for t, expected in enumerate([{0: 4.31, 1: 6.01, 2: 4.11}, {0: 4.31, 1: 6.01, 2: 4.11}, {0: 0.91, 2: 0.71}]):
        arrivals = {
            e["to"]: e["arrives_s"] - starts[t]
            for e in events
            if e["event"] == "message" and e["kind"] == "announcement" and e["sent_s"] == ends[t]
        }
        assert arrivals == pytest.approx(expected)


def test_a_failed_client_takes_its_unit_out_and_is_never_trained():
    fixed = Fixed([1.0] * 4, compute=1.0, deaths={(0, 2): 0.5}, units=[[0, 1], [2, 3]])
    server, (only,), _ = play(fixed)
    assert only.clients.tolist() == [0, 1]
    assert only.row["failed"] == 1
    assert only.row["bytes_up"] == 3 * BYTES, "client 3 did upload, in vain"
    assert server.parts.learner.trained == [[0, 1]]
    assert server.model[0] == 0.5
    assert server.tally.participation.tolist() == [1, 1, 0, 0]


def test_partial_sums_the_survivors():
    fixed = Fixed([1.0] * 4, deaths={(0, 2): 0.5}, units=[[0, 1], [2, 3]])
    server, (only,), _ = play(fixed, on_failure="partial")
    assert only.clients.tolist() == [0, 1, 3]
    assert server.model[0] == pytest.approx(4 / 3)


def test_abort_ends_the_round_when_the_failure_is_heard_of():
    fixed = Fixed([1.0, 1.0, 50.0], compute=4.0, deaths={(0, 1): 0.25})
    server, rounds, events = play(fixed, on_failure="abort", rounds=2)
    first, second = rounds
    assert first.row["skipped"] == 1 and first.clients.size == 0
    assert first.row["time_s"] == 1.0 + 0.25 * 4.0 + 1.0
    assert second.row["time_s"] == 3.0 + 104.0, "what the first round left running does not disturb the second"
    assert server.parts.learner.trained == [[0, 1, 2]]


@pytest.mark.parametrize("on_failure", ["abort", "drop_unit", "partial"])
@pytest.mark.parametrize("compute", [0.0, 1.0])
def test_an_update_that_is_sent_has_a_record_of_its_work(on_failure, compute):
    """Also at an exact tie: client 1's failure is heard of at 2 s, when client 2 has the model and needs no time."""
    fixed = Fixed([1.0, 1.0, 2.0, 1.5], compute=[compute, 0.0, 0.0, compute], deaths={(0, 1): 0.5})
    _, _, events = play(fixed, on_failure=on_failure)
    worked = {e["client"]: e for e in events if e["event"] == "compute"}
    sent = {e["from"]: e for e in events if e["event"] == "message" and e["kind"] in ("update", "failure")}
    assert 1 in sent and 2 in sent and sent.keys() <= worked.keys()
    for client, message in sent.items():
        assert worked[client]["end_s"] == message["sent_s"]
        assert worked[client]["completed"] is (message["kind"] == "update")
        assert events.index(worked[client]) < events.index(message)


def test_all_units_failing_is_a_skipped_round():
    fixed = Fixed([1.0] * 2, deaths={(0, 0): 0.0}, units=[[0, 1]])
    server, (only,), _ = play(fixed)
    assert only.row["skipped"] == 1 and only.row["cardinality"] == 0 and server.model[0] == 0


def test_the_deadline_counts_stragglers_as_failed_and_ignores_them_afterwards():
    fixed = Fixed([1.0, 1.0, 1.0], compute=[1.0, 1.0, 9.0])
    server, (first, second), events = play(fixed, deadline_s=5.0, rounds=2)
    assert first.row["time_s"] == 5.0 and second.row["time_s"] == 10.0
    assert first.clients.tolist() == second.clients.tolist() == [0, 1]
    assert first.row["failed"] == second.row["failed"] == 1
    assert [e["client"] for e in events if e["event"] == "cancel"] == [2, 2]
    assert not [e for e in events if e["event"] == "message" and e["kind"] == "update" and e["from"] == 2]


def test_a_round_without_enough_clients_is_skipped_and_takes_the_named_time():
    fixed = Fixed([1.0, 1.0], available=[[0, 0], [1, 1]])
    server, (first, second), _ = play(fixed, rounds=2, skipped_round_s=7.0)
    assert first.row == first.row | {"skipped": 1, "time_s": 7.0, "bytes_down": 0, "failed": 0, "mean_cardinality": 0.0}
    assert second.row == second.row | {"skipped": 0, "time_s": 9.0, "mean_cardinality": 1.0, "fairness_gap": 0.0}


def test_every_selected_client_has_one_end_and_time_never_goes_back():
    rng = np.random.default_rng(3)
    n, rounds = 12, 40
    deaths = {(t, c): float(rng.random()) for t in range(rounds) for c in range(n) if rng.random() < 0.2}
    available = rng.random((rounds, n)) < 0.7
    fixed = Fixed(rng.random(n), rng.random(n) * 3, deaths, np.arange(n).reshape(-1, 3), available)
    _, played, events = play(fixed, rounds=rounds, deadline_s=3.5)
    ends = {}
    t = -1
    for event in events:
        if event["event"] == "round_start":
            t = event["round"]
            assert event["time_s"] == (played[t - 1].row["time_s"] if t else 0.0)
        if event["event"] == "message":
            assert event["arrives_s"] >= event["sent_s"]
            if event["kind"] == "model":
                ends[t, event["to"]] = []
            elif event["to"] == SERVER and event["arrives_s"] <= played[t].row["time_s"]:
                ends[t, event["from"]].append(event["kind"])
        if event["event"] == "cancel":
            ends[t, event["client"]].append("cancel")
    assert ends and all(len(end) == 1 for end in ends.values())
    times = [round.row["time_s"] for round in played]
    assert times == sorted(times)
    for t, done in enumerate(played):
        assert done.row["failed"] == sum(end != ["update"] for (at, _), end in ends.items() if at == t)


@pytest.mark.parametrize("weighting", ["samples", "equal"])
def test_a_client_without_samples_is_in_no_sum(weighting):
    """Its unit's other member is then all that the sum holds, and the row says so."""
    fixed = Fixed([1.0] * 4, units=[[0, 1], [2, 3]])
    server, (only,), _ = play(fixed, weighting=weighting, samples=[5, 0, 5, 5])
    assert only.clients.tolist() == [0, 2, 3] and only.row["cardinality"] == 3
    assert server.model[0] == pytest.approx((0 + 2 + 3) / 3)
    assert server.tally.participation.tolist() == [1, 0, 1, 1]


def test_a_round_of_clients_without_samples_is_skipped():
    server, (only,), _ = play(Fixed([1.0] * 2), samples=[0, 0])
    assert only.row["skipped"] == 1 and not only.clients.size and server.model[0] == 0
    assert only.row["bytes_up"] == 2 * BYTES, "they did answer"


@pytest.mark.parametrize(
    "stop, played",
    [({"client_updates": 5}, 3), ({"time_s": 9.0}, 3), ({"time_s": 9.1}, 4), ({"traffic_bytes": 8 * BYTES + 1}, 3)],
)
def test_a_run_ends_with_the_first_round_at_which_a_limit_is_reached(stop, played):
    """Two clients, rounds of 3 s, 2 updates and 4 messages each."""
    _, rounds, _ = play(Fixed([1.0, 1.0], compute=1.0), rounds=None, stop=Stop(**stop))
    assert [done.last for done in rounds] == [False] * (played - 1) + [True]


def test_what_arrives_exactly_at_the_deadline_counts_and_nothing_of_it_later():
    """Client 1's update is on its way when round 0 ends at 1 s; it arrives in round 1, where it counts nowhere."""
    fixed = Fixed([0.25, 0.25], compute=[0.5, 1.0])
    _, (first, second), _ = play(fixed, rounds=2, deadline_s=1.0, on_failure="partial")
    assert first.clients.tolist() == [0] and second.clients.tolist() == [0]
    assert (first.row["time_s"], second.row["time_s"]) == (1.0, 2.0)


def test_rounds_that_never_sum_anything_do_not_go_on_for_ever(tmp_path, monkeypatch):
    """Only ``stop`` ends the run, and what it waits for cannot come: nobody meets the deadline."""
    from simfl.core.errors import SimflError
    from simfl.runs.run import run
    from simfl.scenario import Scenario

    monkeypatch.setattr("simfl.agents.servers.MAX_EMPTY_ATTEMPTS", 50)
    text = """
    clients: 2
    network: {name: star, latency_s: 1.0}
    selection: {name: random, k: 2}
    training: {name: fedavg, stop: {client_updates: 5}, deadline_s: 0.5}
    learning: none
    """
    with pytest.raises(SimflError, match="50 rounds in a row have summed nothing"):
        run(Scenario.parse(text, "s"), tmp_path)
    with_rounds = Scenario.parse(text, "s", ["training.rounds=80"])
    assert run(with_rounds, tmp_path).summary["skipped"] == 80
