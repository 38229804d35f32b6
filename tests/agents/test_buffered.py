"""The buffered server on arrival scripts small enough to work out by hand."""

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.metrics.participation import concurrency
from simfl.training.fedavg import FedAvg
from simfl.training.fedbuff import FedAsync, FedBuff, FedBuffPaper, FLSim
from simfl.training.optimisers import ServerSgd
from simfl.training.sgd_rule import Stop
from simfl.training.staleness import ConstantStaleness, HingeStaleness, PolynomialStaleness
from tests.support.scripted import BYTES, Script, jobs, play

SLOW_THIRD = [[1.0], [2.5], [9.0]]
"""Clients 0, 1, 2 with buffer 2: 0 and 1 fill the buffer at 2.5, 5.0 and 7.5 s, 0 is back at 8.5 s, 2 at 9.0 s."""


def fedbuff(**fields):
    return FedBuff(**{"concurrency": 3, "buffer": 2, "rounds": 4, "weighting": "equal", "retry_s": 1000.0} | fields)


def models(rounds_or_server):
    return float(rounds_or_server.model[0])


def test_a_script_of_three_clients_gives_these_arrivals_and_staleness():
    server, rounds, _ = play(Script(SLOW_THIRD), fedbuff(staleness=PolynomialStaleness(1.0)))
    assert [done.row["time_s"] for done in rounds] == [2.5, 5.0, 7.5, 9.0]
    assert server.parts.learner.trained == [
        [(0, 0), (1, 0)],
        [(0, 1), (1, 1)],
        [(0, 2), (1, 2)],
        [(0, 3), (2, 0)],
    ]
    assert [done.weights.tolist() for done in rounds] == [[1, 1], [1, 1], [1, 1], [1, 0.25]]
    assert [done.clients.tolist() for done in rounds] == [[0, 1], [0, 1], [0, 1], [0, 2]]
    assert [(done.row["staleness_mean"], done.row["staleness_max"]) for done in rounds[2:]] == [(0.0, 0), (1.5, 3)]
    assert [done.row["bytes_up"] for done in rounds] == [2 * BYTES] * 4
    assert [done.row["bytes_down"] for done in rounds] == [3 * BYTES, 2 * BYTES, 2 * BYTES, 2 * BYTES]


# Δ(i, v) = 8(i + 1) + v. The first three steps: (8 + 16)/2, (9 + 17)/2, (10 + 18)/2 = 12 + 13 + 14 = 39.
# The fourth has Δ = 11 (client 0, version 3, τ = 0) and Δ = 24 (client 2, version 0, τ = 3).
@pytest.mark.parametrize(
    "staleness, normaliser, expected",
    [
        (ConstantStaleness(), "count", 39 + (11 + 24) / 2),
        (ConstantStaleness(), "weight_sum", 39 + (11 + 24) / 2),
        (PolynomialStaleness(1.0), "count", 39 + (11 + 24 / 4) / 2),
        (PolynomialStaleness(1.0), "weight_sum", 39 + (11 + 24 / 4) / 1.25),
        (PolynomialStaleness(0.5), "count", 39 + (11 + 24 / 2) / 2),
        (HingeStaleness(a=3.5, b=1.0), "count", 39 + (11 + 24 / 8) / 2),
        (HingeStaleness(a=3.5, b=1.0), "weight_sum", 39 + (11 + 24 / 8) / 1.125),
        (HingeStaleness(a=3.5, b=3.0), "weight_sum", 39 + (11 + 24) / 2),
    ],
)
def test_every_staleness_function_and_normaliser_to_the_last_digit(staleness, normaliser, expected):
    server, _, _ = play(Script(SLOW_THIRD), fedbuff(staleness=staleness, normaliser=normaliser))
    assert models(server) == np.float32(expected)


def test_sample_counts_weigh_and_normalise():
    """Samples 1, 3, 4: count divides by Σ e, weight_sum by Σ e s."""
    for normaliser, last in (("count", (1 * 11 + 4 * 24 / 4) / 5), ("weight_sum", (1 * 11 + 4 * 24 / 4) / 2)):
        rule = fedbuff(weighting="samples", staleness=PolynomialStaleness(1.0), normaliser=normaliser)
        server, rounds, _ = play(Script(SLOW_THIRD), rule, samples=[1, 3, 4])
        before = sum((1 * (8 + v) + 3 * (16 + v)) / 4 for v in range(3))
        assert models(server) == pytest.approx(before + last, rel=1e-7)
        assert rounds[3].weights.tolist() == [1, 0.25], "the participation row holds s(τ), not samples"


def test_server_learning_rate_scales_the_step():
    server, _, _ = play(Script(SLOW_THIRD), fedbuff(rounds=1, server_learning_rate=0.5))
    assert models(server) == 6.0


def test_the_server_optimisers_step_on_the_buffer():
    """Momentum 1/2: the first three averages are 12, 13, 14, the velocities 12, 19, 23.5."""
    server, _, _ = play(Script(SLOW_THIRD), fedbuff(rounds=3, server_optimiser=ServerSgd(momentum=0.5)))
    assert models(server) == 12 + 19 + 23.5


def test_the_paper_preset_divides_by_k_and_discounts_by_the_square_root():
    server, _, _ = play(
        Script(SLOW_THIRD), FedBuffPaper(concurrency=3, buffer=2, rounds=4, retry_s=1e3), samples=[1, 3, 4]
    )
    assert models(server) == np.float32(39 + (11 + 24 / 2) / 2)


def test_flsim_sums_without_dividing_and_scales_the_weight_to_one_at_staleness_one():
    server, rounds, _ = play(Script(SLOW_THIRD), FLSim(concurrency=3, buffer=2, rounds=4, retry_s=1e3))
    assert models(server) == 78 + 11 + 24
    rule = FLSim(concurrency=3, buffer=2, rounds=4, staleness=PolynomialStaleness(1.0), retry_s=1e3)
    server, rounds, _ = play(Script(SLOW_THIRD), rule)
    assert rounds[3].weights.tolist() == [2, 0.5], "(1 + τ)^-1 / (1 + 1)^-1"
    assert models(server) == 2 * 78 + 2 * 11 + 0.5 * 24


def test_fedasync_mixes_models():
    """Two clients, 1 s and 2.5 s; x <- (1 - α s) x + α s (x(v) + Δ), α = 1/2, s = 1/(1 + τ)."""
    rule = FedAsync(concurrency=2, rounds=3, server_learning_rate=0.5, staleness=PolynomialStaleness(1.0))
    server, rounds, _ = play(Script([[1.0], [2.5]]), rule, initially=100.0)
    assert [done.clients.tolist() for done in rounds] == [[0], [0], [1]]
    assert [done.row["time_s"] for done in rounds] == [1.0, 2.0, 2.5]
    x0 = 100.0
    x1 = 0.5 * x0 + 0.5 * (x0 + 8)
    x2 = 0.5 * x1 + 0.5 * (x1 + 9)
    x3 = (1 - 0.5 / 3) * x2 + 0.5 / 3 * (x0 + 16)
    assert models(server) == pytest.approx(x3, rel=1e-7)


def test_deltas_are_never_averaged_as_models():
    """Clients that change nothing leave any model where it is, whatever the weights."""
    for normaliser in ("count", "weight_sum", "none"):
        rule = fedbuff(staleness=PolynomialStaleness(1.0), normaliser=normaliser)
        server, _, _ = play(Script(SLOW_THIRD), rule, initially=1000.0, delta=lambda client, version: 0.0)
        assert models(server) == 1000.0


def test_staleness_counts_from_the_download_not_from_the_last_upload():
    """Client 1 uploads at version 0, is away for two versions, downloads version 3 and delivers at version 4."""
    script = Script([[1.0], [0.5, 1.0]], away={1: [1], 2: [1], 3: [1]})
    _, rounds, _ = play(script, fedbuff(concurrency=2, buffer=1, rounds=5, staleness=PolynomialStaleness(1.0)))
    mine = [(row["version"], row["round"], row["staleness"]) for row in jobs(rounds) if row["client"] == 1]
    assert mine == [(0, 0, 0), (3, 4, 1)]
    assert rounds[4].clients.tolist() == [1] and rounds[4].weights.tolist() == [0.5]


def test_members_of_a_unit_wait_for_one_another_and_share_one_weight():
    """Units {0, 1} and {2, 3}; 3 is slow, so that 2's update waits while {0, 1} is aggregated twice."""
    for unit_weights, weights in (("common", [1 / 3, 1 / 3]), ("own", [1.0, 1 / 3])):
        script = Script([[1.0], [1.0], [0.5], [2.5]], units=[[0, 1], [2, 3]])
        rule = fedbuff(concurrency=4, rounds=3, staleness=PolynomialStaleness(1.0), unit_weights=unit_weights)
        _, rounds, _ = play(script, rule)
        assert [done.clients.tolist() for done in rounds] == [[0, 1], [0, 1], [2, 3]]
        assert [done.row["time_s"] for done in rounds] == [1.0, 2.0, 2.5]
        assert rounds[2].weights.tolist() == weights, "2 delivered before the first step was taken, 3 after the second"


def test_partial_lets_members_in_one_by_one():
    """3 dies at 1.25 s and takes nobody with it."""
    script = Script([[1.0], [1.0], [1.5], [2.5]], failures=[(3, 0)], units=[[0, 1], [2, 3]])
    _, rounds, _ = play(script, fedbuff(concurrency=4, buffer=3, rounds=1, partial=True))
    assert rounds[0].clients.tolist() == [0, 1, 2] and rounds[0].row["time_s"] == 1.5
    assert [(row["client"], row["outcome"]) for row in jobs(rounds)][0] == (3, "failed")


def test_a_failed_member_forfeits_its_unit_and_frees_every_slot():
    """3 dies at 2 s: 2, who had delivered at 1 s, is idle again; both start anew at once."""
    script = Script([[6.0], [6.0], [1.0], [4.0, 1.0]], failures=[(3, 0)], units=[[0, 1], [2, 3]])
    server, rounds, _ = play(script, fedbuff(concurrency=4, rounds=1))
    assert rounds[0].clients.tolist() == [2, 3] and rounds[0].row["time_s"] == 3.0
    assert [(row["client"], row["outcome"], row["ended_s"]) for row in jobs(rounds)] == [
        (2, "forfeited", 1.0),
        (3, "failed", 2.0),
        (2, "aggregated", 3.0),
        (3, "aggregated", 3.0),
        (0, "open", 3.0),
        (1, "open", 3.0),
    ]
    assert rounds[0].row["failed"] == 2
    assert rounds[0].row["bytes_up"] == 3 * BYTES, "2 did upload, in vain, and the dead client nothing"
    assert server.parts.learner.trained == [[(2, 0), (3, 0)]]


def test_a_running_mate_of_a_failed_client_is_cancelled():
    script = Script([[9.0, 1.0], [2.0, 1.0]], failures=[(1, 0)], units=[[0, 1]])
    _, rounds, events = play(script, fedbuff(concurrency=2, rounds=1))
    assert [(row["client"], row["outcome"], row["ended_s"]) for row in jobs(rounds)] == [
        (0, "forfeited", 1.0),
        (1, "failed", 1.0),
        (0, "aggregated", 2.0),
        (1, "aggregated", 2.0),
    ]
    assert [event["client"] for event in events if event["event"] == "cancel"] == [0]


def test_a_deadline_frees_the_slot_and_an_update_on_the_dot_counts():
    script = Script([[2.0, 9.0], [2.5, 0.25]], latency=0.25)
    _, rounds, _ = play(script, fedbuff(concurrency=2, buffer=1, rounds=2, deadline_s=2.5))
    assert [(done.clients.tolist(), done.row["time_s"]) for done in rounds] == [([0], 2.5), ([1], 3.25)]
    rows = [(row["client"], row["outcome"], row["started_s"], row["ended_s"]) for row in jobs(rounds)]
    assert rows == [
        (0, "aggregated", 0, 2.5),
        (1, "late", 0, 2.5),
        (1, "aggregated", 2.5, 3.25),
        (0, "open", 2.5, 3.25),
    ]
    assert [done.row["failed"] for done in rounds] == [0, 1]


@pytest.mark.parametrize("too_stale, expected", [("discard", [0, 1]), ("clip", [0, 2])])
def test_updates_that_are_too_old(too_stale, expected):
    rule = fedbuff(staleness=PolynomialStaleness(1.0), max_staleness=1, too_stale=too_stale)
    server, rounds, _ = play(Script(SLOW_THIRD), rule)
    assert rounds[3].clients.tolist() == expected
    stale = [row for row in jobs(rounds) if row["outcome"] == "stale"]
    if too_stale == "clip":
        assert not stale and rounds[3].weights.tolist() == [1, 0.5] and rounds[3].row["staleness_max"] == 3
    else:
        assert [(row["client"], row["version"], row["ended_s"], row["staleness"]) for row in stale] == [(2, 0, 9.0, 3)]
        assert rounds[3].row["failed"] == 1
        assert (2, 0) not in {job for batch in server.parts.learner.trained for job in batch}, "it was never trained"


def test_slots_are_refilled_at_once_and_never_exceed_the_concurrency():
    n, rng = 12, np.random.default_rng(0)
    script = Script([rng.random(400).tolist() for _ in range(n)])
    _, rounds, _ = play(script, fedbuff(concurrency=5, buffer=2, rounds=200))
    rows = jobs(rounds)
    times, at_work = concurrency([row["started_s"] for row in rows], [row["ended_s"] for row in rows])
    assert set(at_work[:-1]) == {5}, "an arrival and the next start happen at the same instant"


def test_model_versions_are_kept_only_while_a_job_refers_to_them():
    server, _, _ = play(Script(SLOW_THIRD), fedbuff(rounds=40))
    assert server.parts.learner.most_models <= 3 + 1
    assert set(server.parts.learner.models) <= {40} | {task.job.version for task in server.dispatcher.live.values()}


def test_nobody_available_is_asked_again_after_the_retry_time():
    away = {tick: [0, 1, 2] for tick in range(3)}
    _, rounds, _ = play(Script([[1.0]] * 3, away=away), fedbuff(buffer=3, rounds=1, retry_s=4.0))
    assert rounds[0].row["time_s"] == 3 * 4.0 + 1.0


def test_fewer_units_than_wanted_are_taken_rather_than_none():
    script = Script([[1.0]] * 3, away={0: [1]})
    _, rounds, _ = play(script, fedbuff(buffer=1, rounds=1))
    assert rounds[0].row["time_s"] == 1.0


def test_a_world_where_nobody_ever_comes_ends_with_a_message(monkeypatch):
    monkeypatch.setattr("simfl.agents.aggregation.policy_queries.MAX_EMPTY_ATTEMPTS", 100)

    class Never(dict):
        def get(self, tick, default=()):
            return [0]

    with pytest.raises(SimflError, match="100 selections in a row have found nobody"):
        play(Script([[1.0]], away=Never({0: [0]})), fedbuff(concurrency=1, buffer=1, rounds=1))


@pytest.mark.parametrize(
    "fields, played",
    [
        ({"rounds": 3}, 3),
        ({"rounds": None, "stop": Stop(client_updates=7)}, 4),
        ({"rounds": None, "stop": Stop(time_s=7.5)}, 3),
        ({"rounds": None, "stop": Stop(time_s=7.6)}, 4),
        ({"rounds": 2, "stop": Stop(client_updates=100, time_s=1e6)}, 2),
    ],
)
def test_the_run_ends_with_the_first_step_at_which_a_limit_is_reached(fields, played):
    _, rounds, _ = play(Script(SLOW_THIRD), fedbuff(**fields))
    assert len(rounds) == played and [done.last for done in rounds] == [False] * (played - 1) + [True]


def test_the_run_ends_when_the_target_accuracy_is_measured():
    rule = fedbuff(rounds=None, stop=Stop(target_accuracy=0.5))
    _, rounds, _ = play(Script(SLOW_THIRD), rule, evaluate_every=1, accuracy=lambda version: version / 4)
    assert [done.row["test_accuracy"] for done in rounds] == [0.25, 0.5]


@pytest.mark.parametrize("units", [[[0], [1], [2]], [[0, 1], [2, 3]]])
def test_concurrency_and_buffer_k_with_equal_durations_is_fedavg(units):
    """Nobody is there at selections 1 and 4: a skipped round of FedAvg, a retry of FedBuff."""
    common = {"rounds": 9, "weighting": "samples", "server_learning_rate": 0.3}
    k, played = len(units) * len(units[0]), []
    for rule in (FedAvg(skipped_round_s=3.0, **common), FedBuff(concurrency=k, buffer=k, retry_s=3.0, **common)):
        script = Script([[2.0]] * 4, units=units, away={1: range(4), 4: range(4)})
        _, rounds, _ = play(script, rule, samples=[1, 2, 3, 5], initially=0.1, delta=lambda c, v: 0.7**c)
        whole = [done for done in rounds if done.clients.size][:7]
        played.append([(done.clients.tolist(), done.weights.tolist(), done.row["time_s"]) for done in whole])
        played.append(float(whole[-1].row["model"]))
    assert played[:2] == played[2:]
