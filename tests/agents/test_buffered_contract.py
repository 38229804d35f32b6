"""What must hold for every policy under the buffered servers, whatever fails; a new policy is tested by existing."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.agents.aggregation.components import Components
from simfl.agents.servers import SERVERS
from simfl.agents.world import World
from simfl.clients.client_agents import Agents
from simfl.core.distributions import HalfNormal
from simfl.core.rng import Streams
from simfl.devices.computation import RandomTime
from simfl.devices.failure import BernoulliFailure
from simfl.devices.random_availability import Bernoulli
from simfl.metrics.participation import concurrency
from simfl.network.star import Star
from simfl.selection.base import POLICIES
from simfl.training.fedbuff import FedBuff
from simfl.training.staleness import PolynomialStaleness, UniformStaleness
from tests.support.policies import Blind
from tests.support.scripted import Recorder, jobs

N, K, T = 48, 8, 4


def policies():
    for name in POLICIES:
        if POLICIES[name].reads_history or name in ("given", "verifiable"):
            continue  # refused: rows are not known before the buffer is full, a list and receipts are of rounds
        known = {field.name for field in fields(POLICIES[name])}
        sizes = {key: value for key, value in POLICIES[name].example.items() if key in known and key != "mode"}
        yield name, sizes | {key: value for key, value in {"k": K, "T": T}.items() if key in known}


class Watched(Blind):
    """A policy whose units are remembered by the number of their selection and a member."""

    def __init__(self, policy, streams):
        self.policy, self.unit_size, self.k = policy, policy.unit_size, policy.k
        self.fixed_size, self.name, self.reads = policy.fixed_size, policy.name, policy.reads
        self.start, self.observe = policy.start, policy.observe
        self.unit_of, self.asked = {}, 0

    def select(self, view, k, rng):
        units = self.policy.select(view, k, rng)
        assert view.available[units].all(), "busy or absent clients were selected"
        for unit in units.tolist():
            for client in unit:
                self.unit_of.setdefault(client, []).append((view.round, tuple(unit)))
        return units


def play(name, sizes, rule, seed=0):
    streams = Streams(seed)
    scenario = SimpleNamespace(
        clients=N, seed=seed, agents=Agents(), devices=SimpleNamespace(availability=Bernoulli(0.2))
    )
    policy = POLICIES[name](**sizes)
    policy = policy.resolve(scenario)
    if policy.asks:
        pytest.skip("the policy asks clients round by round")
    watched = Watched(policy, streams)
    parts = Components(
        N,
        streams,
        Star(0.1).build(scenario, streams),
        Bernoulli(0.2).build(scenario, streams),
        RandomTime(HalfNormal(1.0)).build(scenario, streams),
        BernoulliFailure(0.1).build(scenario, streams),
        watched,
        rule,
        Recorder(100, np.full(N, 5)),
        0,
    )
    rounds = []
    world = World()
    agent = SERVERS[rule.server](parts, world, rounds.append)
    world.run(world.spawn(agent.run()))
    return agent, rounds, watched


RULE = FedBuff(
    concurrency=16,
    buffer=K,
    rounds=60,
    deadline_s=2.5,
    max_staleness=6,
    staleness=PolynomialStaleness(1.0),
    retry_s=0.5,
)
RULES = {
    "units": RULE,
    "own weights": replace(RULE, unit_weights="own"),
    "partial": replace(RULE, partial=True),
    "clip": replace(RULE, max_staleness=1, too_stale="clip"),
    "look ahead": replace(RULE, lookahead=24),
    "drawn": replace(RULE, arrivals=UniformStaleness(max=8)),
    "drawn, partial": replace(RULE, arrivals=UniformStaleness(max=8), partial=True),
}


@pytest.mark.parametrize("name, sizes", list(policies()), ids=[name for name, _ in policies()])
@pytest.mark.parametrize("kind", RULES)
def test_every_policy_keeps_its_units_and_every_job_has_one_end(name, sizes, kind):
    rule = RULES[kind]
    if name == "partition":
        rule = replace(rule, concurrency=2 * K)
    agent, rounds, watched = play(name, sizes, rule)
    rows = jobs(rounds)
    assert len(rounds) == 60 and {row["outcome"] for row in rows} >= {"aggregated", "failed"}
    ids = [row["job"] for row in rows]
    assert len(set(ids)) == len(ids), "a job ended twice"
    started = sum(done.row["bytes_down"] for done in rounds) // 100
    assert started == len(rows), "a job did not end"
    wasted = [row for row in rows if row["outcome"] not in ("aggregated", "open")]
    assert sum(done.row["failed"] for done in rounds) == len(wasted)
    trained = {(client, version) for batch in agent.parts.learner.trained for client, version in batch}
    assert len(rounds) * K == sum(len(batch) for batch in agent.parts.learner.trained), "only what counts was trained"

    size = 1 if rule.partial else watched.unit_size
    for done in rounds:
        mine = {row["client"]: row for row in rows if row["outcome"] == "aggregated" and row["round"] == done.number}
        assert sorted(mine) == done.clients.tolist() and len(done.clients) == K
        assert len(set(done.clients.tolist())) == K, "a client counts twice in one sum"
        clip = rule.too_stale == "clip"
        for client, weight in zip(done.clients.tolist(), done.weights.tolist(), strict=True):
            row = mine[client]
            assert weight == 1 / (1 + min(row["staleness"], rule.max_staleness))
            assert 0 <= row["staleness"] <= done.number - row["version"]
            assert clip or row["staleness"] <= rule.max_staleness
            assert (client, row["version"]) in trained
        together = {}
        for client, row in mine.items():
            units = {unit for _, unit in watched.unit_of[client] if set(unit) <= set(mine)} if size > 1 else {(client,)}
            assert units, "a client was summed without its unit"
            together[client] = row["job"] >> 32, row["version"]
        if size > 1 and name != "half_partition":
            for client, seen in together.items():
                (unit,) = {unit for _, unit in watched.unit_of[client]}
                assert {together[mate] for mate in unit} == {seen}
                if rule.unit_weights == "common":
                    assert len({mine[mate]["staleness"] for mate in unit}) == 1

    times = [done.row["time_s"] for done in rounds]
    assert times == sorted(times)
    if isinstance(rule.arrivals, UniformStaleness):
        return
    assert all(row["started_s"] <= row["ended_s"] for row in rows)
    assert all(row["ended_s"] - row["started_s"] <= rule.deadline_s + 1e-9 for row in rows), "a slot was held too long"
    _, at_work = concurrency([row["started_s"] for row in rows], [row["ended_s"] for row in rows])
    assert at_work.max() <= rule.concurrency and at_work[-1] == 0
    working = sum(row["outcome"] == "open" and row["ended_s"] == times[-1] for row in rows)
    assert agent.dispatcher.free >= rule.concurrency - working
    assert set(np.flatnonzero(agent.dispatcher.busy)) == {row["client"] for row in rows if row["outcome"] == "open"}


@pytest.mark.parametrize("name, sizes", list(policies()), ids=[name for name, _ in policies()])
def test_the_same_seed_gives_the_same_run_and_another_one_another(name, sizes):
    first, again, other = (
        [(done.clients.tolist(), done.row["time_s"]) for done in play(name, sizes, RULE, seed)[1]] for seed in (0, 0, 1)
    )
    assert first == again != other
