"""No sum of fewer clients than ``min_sum`` is opened, whatever weights are rounded to and whenever clients get data."""

import csv
from collections import Counter

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg import basecagg
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.crypto.field import Q
from simfl.secagg.crypto.keys import ProtocolViolation
from simfl.secagg.sessions import ClientUpdates, Cohort, SessionFailure, SessionResult
from simfl.training.aggregates import Mean
from tests.plugins.test_public_interface import killed_and_resumed
from tests.support.kills import files

D, NOBODY = 5, ()


def recovered(protocol, cohort, silent=NOBODY):
    """The end of a buffer's session, and whom it has asked for what."""
    prepared = [np.ones(cohort.clients, dtype=bool)] * len(cohort.units)
    session = protocol.recover(cohort, np.ones(cohort.units.shape, dtype=bool), prepared, Streams(2))
    requests = []
    try:
        request = next(session)
        while True:
            requests.append(request.kind)
            request = session.send(~np.isin(request.to, silent))
    except StopIteration as end:
        return end.value, requests


def basecagg_of(**fields):
    return PROTOCOLS.of({"name": "basecagg", "min_sum": 3, "weight_channel": False, "staleness_scale": 1, **fields})


def buffer_of(row, size=1, **fields):
    """A buffer of units whose updates have these staleness weights, among eight clients."""
    units = np.arange(len(row) * size, dtype=np.int32).reshape(-1, size)
    return Cohort(9, units, D, 8, row=np.repeat(np.array(row, dtype=float), size).reshape(-1, size), **fields)


@pytest.mark.parametrize(
    "row, size, empty, why",
    [
        ([1, 0, 0, 0], 1, [], "the weights of 3 of 4 updates are rounded to 0, 1 are left, a sum needs 3"),
        ([1, 1, 0, 0], 1, [], "the weights of 2 of 4 updates are rounded to 0, 2 are left, a sum needs 3"),
        ([0, 1, 0], 2, [], "the weights of 4 of 6 updates are rounded to 0, 2 are left, a sum needs 3"),
        ([0, 0, 0, 0], 1, [], "0 are left"),
        ([1, 1, 1, 0], 1, [1], "the weights of 1 of 3 updates are rounded to 0, 2 are left, a sum needs 3"),
        ([1, 1, 1, 1], 1, [1, 2], "upload: 2 updates, a sum needs 3"),
        ([1, 1, 1, 0], 1, [3], None),
        ([1, 1, 0], 2, [], None),
    ],
)
def test_the_server_asks_for_no_sum_of_too_few_weights(row, size, empty, why):
    end, requests = recovered(basecagg_of(), buffer_of(row, size, empty=np.isin(np.arange(8), empty)))
    if why is None:
        assert isinstance(end, SessionResult) and requests == ["unmask"]
        assert end.secret.factors.ravel().tolist() == np.repeat(row, size).tolist()
    else:
        assert isinstance(end, SessionFailure) and requests == [] and why in end.reason
        assert end.redraw == ("rounded" in why or "0 are left" in why)


def test_every_buffer_that_is_summed_has_enough_weights():
    """Whatever is drawn: with half a weight each, three of five succeed as often as three of five coins."""
    rng, good = np.random.default_rng(0), 0
    for number in range(400):
        cohort = buffer_of([0.5] * 5, attempt=number)
        end, _ = recovered(basecagg_of(), cohort)
        if isinstance(end, SessionResult):
            assert np.count_nonzero(end.secret.factors) >= 3
            good += 1
        mixed = recovered(basecagg_of(), buffer_of(rng.random(5)))[0]
        assert isinstance(mixed, SessionFailure) or np.count_nonzero(mixed.secret.factors) >= 3
    assert abs(good / 400 - 0.5) < 4 * 0.5 / 400**0.5, "also: every attempt draws anew"


def test_the_draws_of_a_first_attempt_are_those_of_the_aggregation():
    """Stored runs rest on them."""
    end, _ = recovered(basecagg_of(min_sum=2, staleness_scale=64), buffer_of([0.3, 0.71, 0.155]))
    u = Streams(2)("basecagg/staleness", 9).random(3)
    assert end.secret.factors.ravel().tolist() == np.floor(64 * np.array([0.3, 0.71, 0.155]) + u).tolist()


@pytest.mark.parametrize("weights", [[1, 0, 0, 0], [0, 5, 0, 3], [1, Q, 1, 2 * Q], [7, -Q, 0, 1]])
def test_honest_helpers_open_no_sum_of_too_few_weights(weights):
    """A server that does not count itself, and one whose weights are 0 in the field only, get no answer."""
    end, _ = recovered(basecagg_of(), buffer_of([1, 1, 1, 1]))
    jobs = [Job(c, c, 0, 0.0) for c in range(4)]
    vectors = [np.full(D, c + 1) for c in range(4)]
    with pytest.raises(ProtocolViolation, match="fewer than 3 clients"):
        basecagg.replay_sessions(end.secret, jobs, vectors, weights, 3, Streams(2))
    total = basecagg.replay_sessions(end.secret, jobs, vectors, [1, 2, 0, 3], 3, Streams(2))
    assert total.tolist() == [1 + 2 * 2 + 3 * 4] * D


def test_a_server_that_weighs_otherwise_than_it_has_said_is_refused():
    """The session has counted other weights than those that it then sums with."""
    protocol = basecagg_of(min_sum=2)
    end, _ = recovered(protocol, buffer_of([1, 1, 1]))
    jobs, row = tuple(Job(c, c, 0, 0.0) for c in range(3)), np.array([3.0, 1.0, 1.0])
    updates = ClientUpdates(jobs, np.zeros((3, D), dtype=np.float32), None, row, row, np.sum, Mean().combine)
    with pytest.raises(SimflError, match="otherwise than it has told the protocol"):
        protocol.add(end, updates, Streams(2))


# -- whole runs -----------------------------------------------------------------------------------------

STALE = """
clients: 12
selection: {name: random, k: 4}
training: {name: fedbuff, rounds: 30, buffer: 4, concurrency: 10, weighting: equal,
  staleness: {name: polynomial, alpha: 3}}
learning: {name: none, parameters: 10}
devices: {computation: {name: random, distribution: {name: exponential, mean: 1}}}
secagg: {name: basecagg, staleness_scale: 1, min_sum: 4, survivors: 0.5, private: 0.2}
privacy: {every: 1}
"""
DRAWN = "training.arrivals={name: uniform_staleness, max: 1, seconds: 1}"
PAIRS = ("selection={name: batch_partition, k: 4, T: 2}", "secagg.min_sum=3")
KINDS = {
    "on the clock": (),
    "without a clock": (DRAWN,),
    "pairs": PAIRS,
    "own staleness": ("training.unit_weights=own", "training.rounds=12"),
    "two steps": ("secagg.staleness_scale=2", "secagg.min_sum=3"),
    "a shared link": ("network={name: star, latency_s: 0.1, server: {down_bytes_per_s: 1e6, up_bytes_per_s: 1e6}}",
                      "training.rounds=12"),
    "learning": ("learning={data: digits, model: logistic}", "training.rounds=8"),
}  # fmt: skip


def rows(folder, name):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def sums_of(folder):
    """Clients with a weight in each sum, by round."""
    return Counter(row["round"] for row in rows(folder, "participation.csv") if float(row["weight"]) > 0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_sum_of_a_run_has_enough_clients_or_has_failed(kind, tmp_path):
    made = Scenario.parse(STALE, "stale", KINDS[kind])
    done = run(made, tmp_path)
    least, sums, table = made.secagg.min_sum, sums_of(done.path), rows(done.path, "rounds.csv")
    assert len(sums) == len(table) == made.training.rounds and min(sums.values()) >= least
    assert done.summary["privacy_strong"] >= (2 if kind == "pairs" else 1)
    failures = [row["failure"] for row in rows(done.path, "phases.csv") if row["failure"]]
    assert failures and all("rounded to 0" in why and f"a sum needs {least}" in why for why in failures)
    assert sum(int(row["secagg_failed"]) for row in table) == len(failures)
    fates = Counter(row["outcome"] for row in rows(done.path, "jobs.csv"))
    assert fates["unrecovered"] == 4 * len(failures), "their clients go on to other work"
    assert fates["aggregated"] == 4 * len(table) and sum(int(row["failed"]) for row in table) == fates["unrecovered"]


@pytest.mark.parametrize("kind", ["on the clock", "without a clock", "pairs", "a shared link"])
def test_killed_beside_failed_sums_it_goes_on_to_the_same_bytes(kind, tmp_path, monkeypatch):
    made = Scenario.parse(STALE, "stale", (*KINDS[kind], "training.rounds=8"))
    whole = files(run(made, tmp_path / "whole").path)
    for at in (1, 4, 6):
        assert files(killed_and_resumed(made, tmp_path / str(at), monkeypatch, at)) == whole


@pytest.mark.parametrize("arrivals", ["clock", "uniform_staleness:max=5"])
def test_where_no_buffer_ever_suffices_the_run_ends_with_the_reason(arrivals, tmp_path, monkeypatch):
    """Weights of a fresh update that are nearly 0: nothing is summed, and nothing is asked for again and again."""
    for module in ("buffered.server", "sampled_staleness"):
        monkeypatch.setattr(f"simfl.agents.{module}.MAX_FAILED_JOBS", 60)
    monkeypatch.setattr("simfl.training.fedbuff.FedBuff.row", lambda self, ages: np.full(len(ages), 1e-6))
    made = Scenario.parse(STALE, "stale", [f"training.arrivals={arrivals}"])
    with pytest.raises(SimflError, match=r"jobs in a row have failed \(upload: the weights of .* a sum needs 4\)"):
        run(made, tmp_path)


GROWING = """
clients: 12
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 5, batch_size: 20, weighting: equal}
learning: {data: digits, model: logistic, partition: {name: growing, first: FIRST, new: 5, versions: 9}}
"""
FIRST = [20] * 4 + [0] * 8
PARTIES = {
    "secagg": "secagg",
    "secagg_plus": "{name: secagg_plus, neighbours: 4, threshold: 2}",
    "lightsecagg": "{name: lightsecagg, private: 0.2, survivors: 0.4}",
    "pairwise_ratchet": "pairwise_ratchet",
    "flamingo": "flamingo",
    "opa": "opa",
    "oblivious": "{name: oblivious, epsilon: 1.0, samples: 5}",
    "basecagg": "{name: basecagg, private: 0.2, survivors: 0.5}",
}


@pytest.mark.parametrize("weighting", ["equal", "samples"])
@pytest.mark.parametrize("name", PARTIES)
def test_clients_whose_data_come_later_hide_nobody_before(name, weighting, tmp_path):
    """At most four of eight have samples in the first round: no sum of five. From the second on everybody has. (A
    buffer comes to no second model without a first sum, so that it must be possible: all four in a buffer of six.)
    """
    if name == "oblivious" and weighting == "samples":
        pytest.skip("it is for clients that weigh the same")
    least = 4 if name == "basecagg" else 5
    overrides = [f"secagg={PARTIES[name]}", f"secagg.min_sum={least}", f"training.weighting={weighting}"]
    if name == "basecagg":
        overrides += ["training={name: fedbuff, rounds: 5, batch_size: 20, normaliser: weight_sum, buffer: 6}",
                      f"training.weighting={weighting}"]  # fmt: skip
    made = Scenario.parse(GROWING.replace("FIRST", str(FIRST)), "growing", overrides)
    done = run(made, tmp_path)
    sums, table = sums_of(done.path), rows(done.path, "rounds.csv")
    assert min(sums.values()) >= least and len(sums) >= 4
    failures = [row["failure"] for row in rows(done.path, "phases.csv") if row["failure"]]
    assert failures and all(f"a sum needs {least}" in why for why in failures)
    if name != "basecagg":
        assert [row["skipped"] for row in table] == ["1", "0", "0", "0", "0"] and len(failures) == 1


def test_data_that_come_later_hide_nobody_without_a_server(tmp_path):
    rule = "training={name: serverless, rounds: 4, batch_size: 20, weighting: equal}"
    overrides = [rule, "secagg=pairwise_ratchet", "secagg.min_sum=5"]
    done = run(Scenario.parse(GROWING.replace("FIRST", str(FIRST)), "growing", overrides), tmp_path)
    assert [row["skipped"] for row in rows(done.path, "rounds.csv")] == ["1", "0", "0", "0"]
