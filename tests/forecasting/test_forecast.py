"""Forecasts: exact exposures, recognised policies, inferred devices, and futures that hold what then happens."""

import itertools
import json
import math
import os
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array
from scipy.stats import binomtest

from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.core.types import View
from simfl.deployment.audit import audit
from simfl.deployment.audit.log import Log
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.forecasting import measured_coverage
from simfl.deployment.forecasting.changes import halves_differ, missing_at_end
from simfl.deployment.forecasting.forecast_result import forecast
from simfl.deployment.forecasting.forecast_text import first_table, limits_of
from simfl.deployment.forecasting.future_span import exposures, past_span, smallest_class
from simfl.deployment.forecasting.futures import plan, simulate
from simfl.deployment.forecasting.parts import PartStore, PartTask, plan_digest, simulate_all
from simfl.deployment.forecasting.past import past_of, read_past
from simfl.deployment.forecasting.policies import candidate, policy_of, recognise
from simfl.privacy.multiround.matrix_metrics import multi_round
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.selection.base import POLICIES

RESULTS = Path(__file__).parents[2] / "results"
sys.path.append(str(RESULTS.parent / "benchmarks"))
import forecast as truth  # noqa: E402


def past_from(rows, times_s=None):
    P = np.asarray(rows, dtype=float)
    return past_of(Log(csr_array(P), range(len(P)), range(P.shape[1])), times_s)


def uniform_log(rounds, rates, k, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.zeros((rounds, len(rates)))
    for row in rows:
        there = np.flatnonzero(rng.random(len(rates)) < rates)
        if len(there) >= k:
            row[rng.choice(there, k, replace=False)] = 1
    return rows


# -- what further sums give away -------------------------------------------------------------------


def test_exposures_of_past_and_future_are_those_of_the_audit_of_both():
    rng = np.random.default_rng(0)
    exposed = 0
    for trial in range(60):
        n, rounds, cut = int(rng.integers(3, 9)), int(rng.integers(5, 14)), 3
        P = (rng.random((rounds, n)) < 0.4).astype(float)
        P[:2, 0] = 1
        if trial % 3 == 1:
            P = P * rng.choice([1.0, 2.0, 3.0], n)  # each client has one weight
        if trial % 3 == 2:
            P = np.repeat(P, 2, axis=1)
        whole, span = audit(P), past_span(past_from(P[:cut]), np.random.default_rng(trial))
        since, ranks = exposures(span, P[cut:] > 0, rng)
        right = np.full(P.shape[1], rounds - cut)
        for exposure in whole.exposed:
            right[exposure.client] = max(-1, exposure.round - cut)
        exposed += len(whole.exposed)
        assert since.tolist() == right.tolist()
        assert ranks.tolist() == whole.trace.rank[cut:].tolist()
        strong = smallest_class(span, P[cut:] > 0, rng)
        assert strong.tolist() == whole.trace.strong[cut:].tolist()
    assert exposed > 50


def test_a_client_whose_sums_are_known_but_for_one_is_exposed_by_that_one():
    """{0, 1} in the past, {1} to come: 1 is exposed by its own sum, and 0 by that of the past."""
    rows = np.array([[1, 1, 0], [1, 1, 0]])
    since, _ = exposures(past_span(past_from(rows), np.random.default_rng(0)), np.array([[False, True, False]]),
                         np.random.default_rng(0))  # fmt: skip
    assert since.tolist() == [0, 0, 1]


def test_weights_that_are_roots_have_residues_and_expose_whom_the_audit_exposes():
    """Staleness weights of FedBuff, 1/sqrt(1 + tau): no prime will do that lacks the roots."""
    rng = np.random.default_rng(3)
    for trial in range(6):
        P = (rng.random((9, 6)) < 0.5) / np.sqrt(1 + rng.integers(0, 4, (9, 6)))
        P[:, 0] = 1
        past = past_of(Log(csr_array(P), range(9), range(6), doubles=trial % 2 == 1))
        exposed = {exposure.client for exposure in audit(P, doubles=past.doubles).exposed}
        span = past_span(past, np.random.default_rng(trial))
        assert past.varying and set(np.flatnonzero(span.exposed).tolist()) == exposed


def test_coming_sums_have_the_clients_weights():
    """Two sites that always come together, with 2 and 3 samples, are a class of one each, and hide each other."""
    from simfl.deployment.forecasting.next_round import outlook

    P = np.tile([2.0, 3.0, 3.0], (10, 1))
    of = forecast(past_from(P), horizon=3, futures=2, guarantees=2).rounds()
    of = of[of["median"].notna()].set_index(["quantity", "round"])
    assert of.index.is_unique
    right = audit(np.tile([2.0, 3.0, 3.0], (13, 1)))
    assert of.loc[("strong", 2), "median"] == right.trace.strong[-1] == 1
    assert of.loc[("semi_strong", 2), "median"] == pytest.approx(right.trace.semi_strong[-1])
    view = outlook(past_from(np.tile(P, (12, 1))), {"semi_strong": 2.6})
    assert view.now["semi_strong"] == pytest.approx(8 / 3) and view.below["semi_strong"] == 0


# -- what a log shows ------------------------------------------------------------------------------


def test_the_mode_of_units_is_told_from_few_rounds_though_some_are_rarely_there():
    """20 rounds of two of ten units, available in a quarter to all rounds, one in five of the selected lost."""
    from simfl.core.types import View
    from simfl.deployment.forecasting.policies import UNITS, policy_of
    from simfl.deployment.forecasting.policy_modes import modes

    said = {"fair": 0, "uniform": 0}
    for mode in said:
        policy = policy_of(f"batch_partition:k=2,T=1,mode={mode}", 10)
        for seed in range(30):
            rng = np.random.default_rng(seed)
            rates, used, rows = rng.uniform(0.25, 1, 10), np.zeros(10, np.int64), np.zeros((20, 10), bool)
            for row in rows:
                chosen = policy.select(View(0, rng.random(10) < rates, used), 2, rng).ravel()
                row[chosen[rng.random(len(chosen)) < 0.8]] = True
                used += row
            said[mode] += modes(rows, 2, UNITS)["uniform"] < 0.5
    assert said["fair"] >= 24 and said["uniform"] <= 4, said


def test_policies_are_recognised():
    rows = policy_log
    for text, n in (("batch_partition:k=8,T=4,mode=uniform", 24), ("batch_partition:k=8,T=4,mode=fair", 24),
                    ("half_partition:k=8,T=4,mode=uniform", 24), ("random:k=6", 24),
                    ("weighted:k=6", 24), ("batch_partition:k=8,T=8,mode=uniform", 48)):  # fmt: skip
        assert text in [law.choice.text for law in recognise(past_from(rows(text, n))).laws]
    order = np.random.default_rng(5).permutation(24)
    shuffled = recognise(past_from(rows("batch_partition:k=8,T=4", 24)[:, order]))
    assert shuffled.choice.text == "batch_partition:k=8,T=4,mode=uniform"
    batches = [set(order[shuffled.choice.order[i : i + 4]] // 4) for i in range(0, 24, 4)]
    assert all(len(batch) == 1 for batch in batches)
    everybody = (np.random.default_rng(1).random((60, 20)) < np.linspace(0.2, 0.9, 20)).astype(float)
    assert recognise(past_from(everybody)).choice.text == "all"
    mixed = rows("random:k=3", 24) + 0
    mixed[::2] = rows("random:k=18", 24, dropout=0.0)[::2]
    assert recognise(past_from(mixed)).choice.text == "as_before"


def policy_log(text, n, rounds=40, dropout=0.15):
    """Who is selected in each round, (rounds, n), by clients that are independently there."""
    from simfl.core.types import View
    from simfl.deployment.forecasting.policies import policy_of

    policy, rng = policy_of(text, n), np.random.default_rng(3)
    table, used = np.zeros((rounds, n)), np.zeros(n, dtype=np.int64)
    for t in range(rounds):
        members = policy.select(View(t, rng.random(n) > dropout, used), getattr(policy, "k", 1), rng).ravel()
        table[t, members] = 1
        used[members] += 1
    return table


REFUSED = ["half_partition:k=12,T=6", "batch_partition:k=12,T=12", "partition:k=12"]


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("named", [None, "as_before", "random:k=12"])
def test_units_that_were_never_tested_are_refused(tmp_path, text, named):
    log = tmp_path / "log.csv"
    rows = policy_log(f"{text},mode=uniform", 36, dropout=0.03)
    log.write_text("round,client\n" + "".join(f"{t},{i}\n" for t, i in np.argwhere(rows)))
    shown = CliRunner().invoke(simfl, ["forecast", str(log), *(["--policy", named] if named else []), "--json"])
    assert shown.exit_code == 2, shown.output
    (line,) = shown.output.splitlines()
    assert "the log shows" in line and "simfl audit" in line


def test_only_tested_policies_are_taken_as_the_logs_own():
    """Of all that are registered: a name, where the log shows nothing, is believed only of those that were tested."""
    past, believed = past_from(uniform_log(30, np.full(16, 0.9), 4)), set()
    for name in POLICIES:
        text = name + (":T=4" if name.startswith(("half", "batch")) else "")
        try:
            forecast(past, horizon=2, futures=2, policy=text, model="constant")
            believed.add(text)
        except SimflError as error:
            assert "\n" not in str(error)
    assert believed == {"all", "random", "weighted"}
    whole = past_from(policy_log("batch_partition:k=4,T=2", 16, rounds=6))
    assert forecast(whole, horizon=2, futures=2, policy="batch_partition:T=2").policies == ["batch_partition:T=2,k=4"]
    with pytest.raises(SimflError, match="sums are not of whole units of 4 neighbouring clients"):
        forecast(past, horizon=2, futures=2, policy="batch_partition:T=4")


@pytest.mark.parametrize(("clients", "against", "said"), [
    (24, (), None),
    (70, (), "Intervals are as wide as forecasts of 12 to 40 clients needed"),
    (420, (), "never compared with what then happens for 420 clients (only "),
    (16, ("half_partition:T=4",), "never compared with what then happens for policies other than the log's."),
])  # fmt: skip
def test_what_was_never_tested_is_said(clients, against, said):
    limits = " ".join(
        forecast(past_from(uniform_log(30, np.full(clients, 0.9), 4)), against, horizon=2, futures=2).limits
    )
    assert said in limits if said else "never compared" not in limits


def test_lengths_and_models_that_were_never_tested_are_said():
    past = past_from(uniform_log(10, np.full(24, 0.9), 4))
    limits = " ".join(forecast(past, horizon=70, futures=2, model="constant").limits)
    assert "10 past and 70 coming rounds (only 24 to 60, as many coming)" in limits
    assert "a model of availability that is named" in limits


def test_failures_are_counted_from_the_sizes_of_sums():
    rows = uniform_log(200, np.full(20, 0.9), 8)
    rows[np.random.default_rng(0).random(rows.shape) < 0.1] = 0
    seen = recognise(past_from(rows))
    assert seen.choice.text == "random:k=8" and seen.failed / seen.worked == pytest.approx(0.1, abs=0.02)


def test_both_half_batches_of_a_pair_fail_once():
    rng, policy = np.random.default_rng(1), policy_of("half_partition:k=8,T=4,mode=uniform", 24)
    rows, lost = np.zeros((60, 24), dtype=bool), 0
    for t, row in enumerate(rows):
        pairs = policy.select(View(t, np.ones(24, bool), rows.sum(axis=0)), 8, rng)
        summed = pairs[rng.random(2) >= 0.2]
        row[summed.ravel()] = True
        lost += (2 - len(summed)) * row.any()
    seen = recognise(past_from(rows))
    assert seen.circle and (seen.failed, seen.worked) == (lost, 2 * rows.any(axis=1).sum())


def test_candidates_fit_the_clients_and_bad_ones_are_named():
    participation = np.arange(22)
    choice = candidate("batch_partition:T=4", 9, 22, participation)
    assert choice.text == "batch_partition:T=4,k=8" and choice.order.tolist() == list(range(2, 22))
    for text, words in (
        ("batch_partitio:T=4", "batch_partition"),
        ("batch_partition", "T"),
        ("oort:k=4", "looks at losses"),
    ):
        with pytest.raises(SimflError, match=words):
            candidate(text, 8, 24, np.arange(24))


def test_rounds_that_summed_nobody_are_counted_where_rounds_have_numbers():
    past = past_of(Log(csr_array(np.eye(3)), [0, 1, 4], range(3)), np.array([0.0, 10.0, 40.0]))
    assert past.rows.any(axis=1).tolist() == [True, True, False, False, True]
    assert past.times_s.tolist() == [0, 10, 20, 30, 40] and past.label(0) == 5


def test_drift_is_noticed():
    rng, rounds, n = np.random.default_rng(8), 240, 16
    drifting = rng.random((rounds, n)) < np.linspace(0.2, 0.8, rounds)[:, None] ** np.where(np.arange(n) % 2, 1, 2)
    steady = rng.random((rounds, n)) < np.linspace(0.05, 0.95, n)
    assert halves_differ(drifting, np.random.default_rng(0)) < 0.01 < halves_differ(steady, np.random.default_rng(0))


def test_clients_that_have_left_are_missed():
    """As often as the p-value says where nobody has left; where a fifth have, mostly; only sums count."""
    rng, steady, left = np.random.default_rng(3), [], []
    for _ in range(60):
        rows = rng.random((40, 20)) < rng.uniform(0.1, 0.9, 20)
        steady.append(missing_at_end(rows, rng))
        rows[25:, :4] = False
        rows[rng.random(40) < 0.2] = False
        left.append(missing_at_end(rows, rng))
    assert binomtest(int((np.array(steady) < 0.2).sum()), 60, 0.2).pvalue > 1e-3
    assert np.mean(np.array(left) < 0.05) > 0.7
    rows = np.eye(12, dtype=bool)[[0, 1, 2, 3] * 6]
    one = np.vstack([rows, np.zeros((30, 12), dtype=bool)])
    assert missing_at_end(rows, np.random.default_rng(0)) == missing_at_end(one, np.random.default_rng(0))
    assert missing_at_end(np.zeros((9, 4), dtype=bool), rng) == 1
    log = uniform_log(40, np.full(16, 0.8), 8)
    log[24:, :4] = 0
    assert "Clients that took part are missing from the last sums" in " ".join(
        forecast(past_from(log), horizon=2, futures=2).limits
    )


def test_a_model_that_was_said_is_called_so():
    past = past_from(uniform_log(20, np.full(6, 0.8), 3))
    assert plan(past, horizon=2, model="markov")[2].sentence == "Availability: markov, as was said."
    with pytest.raises(SimflError, match="--model time_of_day: the log has no times; one of constant"):
        plan(past, horizon=2, model="time_of_day")
    assert recognise(past, "as_before").sentence.startswith("The policy is as_before, as was said")


# -- futures ---------------------------------------------------------------------------------------


def test_a_future_is_the_same_whenever_and_wherever_it_is_played(tmp_path):
    past = past_from(uniform_log(20, np.linspace(0.4, 0.9, 12), 3))
    whole, *_ = plan(past, ("batch_partition:T=3",), horizon=15, seed=4)
    alone, pair = simulate_all(whole, 20), simulate_all(whole, 20, tmp_path, processes=2)
    for one, two in zip(alone, pair, strict=True):
        for a, b in zip(one, two, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
    store = PartStore(tmp_path, plan_digest(whole))
    assert store.load(PartTask(0, 0, 10)) is not None
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 4
    kept[0].write_bytes(kept[0].read_bytes()[:50])  # cut short by a crash
    kept[1].write_bytes(b"")
    damaged = bytearray(kept[2].read_bytes())
    damaged[100:400] = bytes(300)
    kept[2].write_bytes(damaged)
    ready = []
    again = simulate_all(whole, 20, tmp_path, step=ready.append)
    assert sum(ready) == 40 and np.array_equal(again[0].rank, alone[0].rank)
    changed, *_ = plan(past, ("batch_partition:T=3",), horizon=15, seed=5)
    assert plan_digest(changed) != plan_digest(whole)


def test_policies_meet_the_same_devices_and_change_over_when_they_are_told():
    past = past_from(uniform_log(20, np.full(12, 0.8), 4))
    whole, *_ = plan(past, ("random:k=4", "batch_partition:T=4"), horizon=12, change_over=5)
    first, same, other = (simulate(whole, policy, 3) for policy in range(3))
    assert np.array_equal(first.rank, same.rank) and np.array_equal(first.exposed, same.exposed)
    assert np.array_equal(first.cardinality[:5], other.cardinality[:5])


def pairs(rounds):
    """Two of the pairs of eight clients in each sum, in turn each two."""
    rows = np.zeros((rounds, 8))
    for row, (one, two) in zip(rows, itertools.cycle(itertools.combinations(range(4), 2)), strict=False):
        row[[2 * one, 2 * one + 1, 2 * two, 2 * two + 1]] = 1
    return rows


def test_who_is_always_there_in_batches_is_never_exposed():
    of = forecast(past_from(pairs(20)), ("random:k=4",), horizon=10, futures=20)
    assert of.policies[0].startswith("batch_partition:k=4,T=2") and (of.outcomes[0].exposed == 10).all()
    table = of.clients()
    assert (table[table.policy == of.policies[0]].probability == 0).all()
    assert table[table.policy == "random:k=4"].probability.min() > 0.5
    difference = of.differences().set_index("quantity")
    assert difference.loc["exposed", "difference"] > 4


@pytest.mark.parametrize("text", ["half_partition:T=2", "guarded:T=2", "bernoulli:probability=0.3", "all"])
def test_every_kind_of_policy_can_be_played(text):
    past = past_from(uniform_log(10, np.full(8, 0.9), 4))
    of = forecast(past, (text,), horizon=4, futures=2, guarantees=1)
    assert of.outcomes[1].cardinality.max() <= 8
    assert {"exposed", "rank", "strong", "weak_upper"} <= set(of.rounds().quantity)


def opened_rows(plan, policy, future):
    """Who is in each coming sum of a future."""
    from simfl.core.rng import Streams
    from simfl.deployment.forecasting import futures as simulating

    streams = Streams(plan.seed)
    return simulating._rounds(plan, simulating._World.of(plan, streams, future), policy, streams, future)[0]


@pytest.mark.parametrize(("clients", "change_over"), [(24, 0), (24, 3), (26, 0)])
@pytest.mark.parametrize("T", [2, 4])
def test_a_guard_answers_for_the_past_and_for_what_comes(clients, change_over, T):
    """Semi-strong of past and coming sums together, by the metrics; clients that no unit has room for included."""
    past = past_from(uniform_log(5, np.full(clients, 0.8), 8))
    whole, seen, model = plan(past, (f"guarded:T={T},tries=5",), horizon=30, change_over=change_over)
    said = " ".join(limits_of(past, whole, seen, model))
    free = 0
    for future in range(3):
        rows = opened_rows(whole, 1, future)
        assert np.array_equal(rows[:change_over], opened_rows(whole, 0, future)[:change_over])
        every = np.vstack([past.rows, rows])
        assert not change_over or rows[:change_over].any()
        before = np.vstack([past.rows, rows[:change_over]]).astype(float)
        left = min(T, multi_round(before).semi_strong)
        assert multi_round(every.astype(float)).semi_strong >= left - 1e-6
        free += int((rows[change_over:].sum(axis=1) > 0).sum())
    everybody = f"keeps the semi-strong guarantee {T} to everybody, the log's sums included"
    assert change_over or (everybody in said) == (left > T - 1e-6)
    assert free > 2


def test_a_guard_says_what_the_past_has_taken_and_keeps_the_rest():
    """{0..3} and {1..3} expose client 0; 4 to 11 have what they had."""
    rows = np.zeros((2, 12))
    rows[0, :4], rows[1, 1:4] = 1, 1
    past = past_from(np.vstack([rows, rows]))
    whole, seen, model = plan(past, ("guarded:T=4",), horizon=25, policy="random:k=4")
    said = " ".join(limits_of(past, whole, seen, model))
    assert "keeps the semi-strong guarantee 4 to 8 of 12 clients, the log's sums included; 3 keep what" in said
    assert "at least 3; 1 is exposed already" in said
    span = past_span(past, np.random.default_rng(0))
    for future in range(4):
        since, _ = exposures(span, opened_rows(whole, 1, future), np.random.default_rng(0))
        assert since[0] == -1 and (since[4:] == 25).all()


def test_a_guard_is_not_played_where_sums_are_weighted():
    past = past_from(np.tile([1.0, 2.0, 1.0, 2.0], (9, 1)))
    with pytest.raises(SimflError, match="different weights.*notion=weak"):
        plan(past, ("guarded:T=2",), horizon=3)
    plan(past, ("guarded:T=2,notion=weak",), horizon=3)
    matrix = np.tile([1.0, 1.0, 1.0, 1.0], (9, 1))
    matrix[3:6, 0] = 2.0
    for notion in ("semi_strong", "weak"):
        with pytest.raises(SimflError, match="other weights in other rounds"):
            plan(past_from(matrix), (f"guarded:T=2,notion={notion}",), horizon=3)


def test_rounded_weights_give_no_certificate_and_expose_nobody_for_certain():
    """True weights .334 and .331 in one order and the other are 0.33 each, and {a, b} twice exposes a and b."""
    rows = 0.33 * np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    for notion in ("semi_strong", "weak"):
        with pytest.raises(SimflError, match=r"may be rounded numbers \(in 3 of 3 rounds\).*no guarantee can be kept"):
            plan(past_from(rows), (f"guarded:T=2,notion={notion}",), horizon=3)
    whole, seen, model = plan(past_from(rows), horizon=3)
    said = " ".join(limits_of(past_from(rows), whole, seen, model))
    assert "Some weights may be rounded numbers (in 3 of 3 rounds)" in said
    assert smallest_class(whole.span, np.ones((1, 4), dtype=bool), np.random.default_rng(0)).tolist() == [1]
    certain = plan(past_from(rows / 0.33), ("guarded:T=2",), horizon=3)[0]
    assert not past_from(rows / 0.33).doubtful and certain.policies[1].before is not None


def test_already_exposed_is_who_the_audit_says_is_exposed_for_certain():
    from simfl.deployment.forecasting.forecast_text import summary

    exposed = others = 0
    for trial in range(40):
        rng = np.random.default_rng(trial)
        n, rounds = int(rng.integers(3, 6)), int(rng.integers(5, 9))
        rows = (rng.random((rounds, n)) < 0.6).astype(float)
        rows[:2, 0] = 1
        unsure = rng.random(rounds) < 0.5
        factors = rng.choice([0.331719, 0.574033], (rounds, n)) if trial % 4 else np.full((rounds, n), 0.33)
        written = np.where(unsure[:, None], rows * factors, rows)
        report, past = audit(written), past_from(written)
        right = {exposure.client for exposure in report.exposed}
        assert set(np.flatnonzero(past_span(past, rng).exposed).tolist()) == right
        exposed, others = exposed + len(right), others + len(report.likely)
        if trial < 4:
            of = forecast(past, horizon=2, futures=2)
            assert ("exposed already for certain" in " ".join(summary(of))) == (report.doubtful > 0)
    assert exposed > 20 and others > 5


def test_a_client_in_no_sum_has_the_weight_of_the_others():
    matrix = np.tile([10.0, 10.0, 10.0, 10.0, 0.0], (9, 1))
    assert past_from(matrix).weights.tolist() == [10.0] * 5
    plan(past_from(matrix), ("guarded:T=2",), horizon=3)


# -- held to what then happens ---------------------------------------------------------------------

FAMILIES = ("half_partition", "partition", "all")


def test_intervals_hold_what_then_happens_and_wrong_plans_are_noticed():
    """A few worlds of the campaign (``benchmarks/forecast.py``); all of them with SIMFL_WHOLE_SEARCHES=1."""
    whole = "SIMFL_WHOLE_SEARCHES" in os.environ
    families, numbers = (truth.FAMILIES, range(60)) if whole else (FAMILIES, range(3))
    worlds = [truth.World(family, number) for family in families for number in numbers]
    right = [row for world in worlds if (row := truth.judge(world, 40)) is not None]
    places = truth.places_of(right)
    assert (np.abs(places - 0.5) <= 0.475).mean() > 0.88
    for name, index in (("cardinality", 0), ("skipped", 1)):
        assert binomtest(int((np.abs(places[:, index] - 0.5) <= 0.475).sum()), len(places), 0.95).pvalue > 1e-3, name
    if not whole:
        rarer = [truth.judge(truth.World("all", number), 40, wrong=less_available)["places"] for number in numbers]
        assert np.mean([row[0] for row in rarer]) > 0.8


def test_intervals_are_as_wide_as_other_deployments_made_them():
    """The stored table again from the stored worlds, with sorted lists instead of the benchmark's numpy."""
    shown = {(row.policy, row.unit, row.quantity, row.cases): row for row in measured_coverage.table()}

    def level(places):
        width = sorted(2 * abs(place - 0.5) for place in places)
        needed = math.ceil((len(width) + 1) * 95 / 100)  # the next one is not wider with a probability of 95 % or more
        return min(max(math.ceil(width[needed - 1] * 1000) / 1000, 0.95), 0.99) if needed <= len(width) else 0.99

    def holds(places, width):
        return sum(2 * abs(place - 0.5) <= width for place in places)

    def worlds(name):
        lines = (RESULTS / "forecast" / f"{name}.jsonl").read_text().splitlines()
        return [row for line in lines if "places" in (row := json.loads(line))]

    for family, unit in truth.FAMILIES.items():
        name = family.replace(" ", "-")
        rows = worlds(name)
        for number, quantity in enumerate(truth.QUANTITIES):
            even, odd = ([row["places"][number] for row in rows if row["world"] % 2 == rest] for rest in (0, 1))
            row = shown[family.split()[0], unit, quantity, len(rows)]
            held = holds(even, level(odd)) + holds(odd, level(even))
            assert (row.share, row.level) == (pytest.approx(held / len(rows), abs=6e-5), level(even + odd))
            many = [row["places"][number] for row in worlds(f"{name}-large")]
            row = shown[family.split()[0], unit, quantity, len(many)]
            assert row.share == pytest.approx(holds(many, level(even + odd)) / len(many), abs=6e-5)


@pytest.mark.parametrize(("quantity", "futures"), [("fairness_gap", 200), ("cardinality", 200), ("fairness_gap", 39)])
def test_an_interval_has_as_many_futures_as_were_measured(quantity, futures):
    """Of F + 1 that are exchangeable, the measured share lies between the ends, and less one place further inside."""
    of = forecast(past_from(uniform_log(24, np.linspace(0.3, 0.9, 16), 4)), horizon=6, futures=futures)
    row = measured_coverage.coverage("random:k=4", 1, 16)[quantity]
    level, outcome, place = Fraction(str(row.level)), of.outcomes[0], 1
    values = {"fairness_gap": outcome.fairness_gap[:, -1], "cardinality": outcome.cardinality.mean(axis=1)}[quantity]
    while 1 - Fraction(2 * (place + 1), futures + 1) >= level:
        place += 1
    milestones, ordered = of.milestones(), sorted(values)
    last = milestones[milestones.quantity == quantity].iloc[-1]
    assert (last.low_95, last.high_95) == (ordered[place - 1], ordered[-place])
    said = first_table(of)[2]
    assert (f": {100 * row.level:.1f}" in said) == (row.level > 0.95)
    widest = max(Fraction(str(each.level)) for each in measured_coverage.coverage("random:k=4", 1, 16).values())
    needed = next(count for count in range(39, 1000) if 1 - Fraction(2, count + 1) >= widest)
    assert (f"{needed} futures or more are needed" in said) == (futures < needed)


@pytest.mark.parametrize(("clients", "fewest"), [(4, 12), (40, 12), (45, 12), (60, 60), (200, 60), (900, 60)])
def test_what_was_measured_of_about_so_many_clients_is_said(clients, fewest):
    sizes = {row.fewest < 60 for row in measured_coverage.coverage("random:k=4", 1, clients).values()}
    assert sizes == {fewest < 60}


def less_available(whole):
    """Everybody is available far less often than the log says."""
    return replace(whole, fitted=replace(whole.fitted, levels=whole.fitted.levels - 0.6))


def test_a_results_folder_is_a_log_unless_more_than_sums_was_seen(tmp_path):
    from simfl.runs.run import run
    from simfl.scenario import Scenario

    text = """
clients: 8
selection: {name: batch_partition, k: 4, T: 4}
training: {name: fedavg, rounds: 6, weighting: equal, aggregate: AGGREGATE}
learning: {name: none, parameters: 4}
devices: {computation: {name: constant, seconds: 60}}
"""
    folder = run(Scenario.parse(text.replace("AGGREGATE", "mean"), "sums"), tmp_path).path
    past = read_past(folder)
    assert past.rows.shape == (6, 8) and past.times_s is not None and not past.dated
    seen = run(Scenario.parse(text.replace("AGGREGATE", "median"), "single"), tmp_path).path
    with pytest.raises(SimflError, match="more than sums was seen: each client's update, by itself"):
        read_past(seen)
    assert read_past(seen / "participation.csv").rows.any()


# -- from Python -----------------------------------------------------------------------------------


def test_a_frame_is_forecast_from_as_a_file_is(log):
    import simfl

    frame = pandas.read_csv(log)
    one = simfl.forecast(frame, horizon=6, futures=4, against=["batch_partition:T=2"])
    two = simfl.forecast(log, horizon=6, futures=4, against="batch_partition:T=2")
    assert one.clients().equals(two.clients()) and one.differences().equals(two.differences())
    renamed = frame.rename(columns={"round": "server_round", "client": "cid"})
    names = {"round": "server_round", "client": "cid"}
    assert simfl.forecast(renamed, columns=names, horizon=6, futures=4).rounds().equals(
        simfl.forecast(frame, horizon=6, futures=4).rounds())  # fmt: skip
    assert one.figure().axes and "<html" in one.html()


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    rows = uniform_log(16, np.linspace(0.5, 0.95, 10), 3, seed=2)
    lines = [f"{t},phone-{i},2026-03-01T{t:02d}:30:00Z" for t, row in enumerate(rows) for i in np.flatnonzero(row)]
    file = tmp_path / "log.csv"
    file.write_text("round,client,time\n" + "\n".join(lines) + "\n")
    return file


def test_the_command_writes_words_tables_and_a_page(log, tmp_path):
    out = tmp_path / "out"
    asked = ["forecast", str(log), "--horizon", "12", "--futures", "12", "--against", "batch_partition:T=2",
             "--from", "18", "--processes", "1", "--guarantees", "1"]  # fmt: skip
    shown = CliRunner().invoke(simfl, [*asked, "-o", str(out)])
    assert shown.exit_code == 0, shown.output
    assert "uniform selection" in shown.output and "from round 18 on" in shown.output and "drift" in shown.output
    clients = pandas.read_csv(out / "clients.csv")
    assert len(clients) == 20 and clients["date_low_95"].dropna().astype(str).str.startswith("2026-03-0").all()
    assert "What this cannot know" in (out / "forecast.html").read_text()
    data = json.loads(CliRunner().invoke(simfl, [*asked, "--json"]).stdout)
    assert data["horizon"] == 12 and len(data["clients"]) == 20
    page = (out / "forecast.html").read_bytes()
    again = CliRunner().invoke(simfl, [*asked, "-o", str(out)])
    assert again.exit_code == 0 and (out / "forecast.html").read_bytes() == page
    days = CliRunner().invoke(simfl, ["forecast", str(log), "--horizon", "0.5d", "--futures", "2", "--json"])
    assert json.loads(days.stdout)["horizon"] == 12


def test_the_first_table_says_now_and_later_with_what_was_measured(tmp_path):
    """Names are whole, columns without a cell are left out, and the audit gives the forecast's first line."""
    from simfl.deployment.forecasting.forecast_text import columns

    rows = uniform_log(16, np.linspace(0.5, 0.95, 24), 3, seed=2)
    names = [f"hospital-of-the-very-long-name-{i:02d}" for i in range(24)]
    lines = [f"{t},{names[i]},2026-03-{t + 1:02d}T10:00:00Z" for t, row in enumerate(rows) for i in np.flatnonzero(row)]
    file = tmp_path / "log.csv"
    file.write_text("round,client,time\n" + "\n".join(lines) + "\n")
    of = forecast(read_past(file), ("batch_partition:T=2",), horizon=30, futures=10)
    heading, table, basis = first_table(of)
    assert heading[2:] == ["now", "after 20 rounds", "after 30 rounds"] and len(table) == 8
    assert [row[0] != "" for row in table] == [True, False] * 4
    now = {row[0]: row[2] for row in table if row[1] == of.policies[0]}
    assert now["clients a round, mean"] == f"{rows.sum(axis=1).mean():.3g}"
    measured = measured_coverage.coverage("random:k=3", 1, 24)["exposed_end"]
    assert f"exposed clients {100 * measured.share:.3g} % of {measured.cases} (" in basis and "random" in basis
    shown = CliRunner().invoke(simfl, ["forecast", str(file), "--horizon", "30", "--futures", "10"]).output
    assert sum(name in shown for name in names) >= 20 and "…" not in shown
    assert columns(["a", "b", "c"], [("1", "", "2"), ("3", "", "4")]) == ["a  c", "1  2", "3  4"]
    (line,) = [
        line for line in CliRunner().invoke(simfl, ["audit", str(file)]).output.splitlines() if "futures of" in line
    ]
    assert line.startswith("simfl forecast, 50 futures of 16 rounds: random:k=3, as now") and "2026-03-" in line


@pytest.mark.parametrize(("words", "message"), [
    (["--horizon", "soon"], "neither a number of rounds"),
    (["--against", "batch_partition:T=0"], "policy batch_partition:T=0"),
    (["--against", "power_of_choice:k=2,d=4"], "looks at losses or durations"),
    (["--against", "oort"], "looks at losses or durations"),
    (["--policy", "guarded:T=2"], "use --against"),
    (["--from", "3"], "must lie between 16 and"),
    (["--columns", "tim=when"], "names none of"),
    (["--columns", "round=round,client=client,time=when"], "no column 'when'"),
])  # fmt: skip
def test_bad_input_is_one_line(log, words, message):
    shown = CliRunner().invoke(simfl, ["forecast", str(log), "--futures", "2", *words])
    assert shown.exit_code == 2 and message in shown.output and "Traceback" not in shown.output


def test_times_in_other_forms_and_in_no_order(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("round,client,time\n0,a,100\n0,b,110\n1,a,90\n")
    with pytest.raises(SimflError, match="round 1 ends before"):
        read_past(file)
    file.write_text("round,client,time\n0,a,yesterday\n1,a,today\n")
    with pytest.raises(SimflError, match="neither seconds nor dates"):
        read_past(file)
    file.write_text("server_round,cid,when\n0,a,5\n0,b,6\n1,a,9\n")
    past = read_past(file, LogOptions({"round": "server_round", "client": "cid", "time": "when"}))
    assert past.times_s.tolist() == [6, 9] and not past.dated


# -- bytes -----------------------------------------------------------------------------------------


def test_bytes_are_those_of_past_clients_times_coming_clients(tmp_path):
    """Each client moves 100 bytes in each sum."""
    file, rows = tmp_path / "log.csv", uniform_log(12, np.full(10, 0.9), 4)
    lines = [f"{t},c{i},100" for t, row in enumerate(rows) for i in np.flatnonzero(row)]
    file.write_text("\n".join(["round,client,bytes", *lines]) + "\n")
    past = read_past(file)
    assert past.round_bytes.tolist() == (100 * past.rows.sum(axis=1)).tolist()
    of = forecast(past, ("batch_partition:T=2",), horizon=6, futures=5)
    for outcome in of.outcomes:
        assert np.array_equal(outcome.bytes, np.cumsum(100 * outcome.cardinality, axis=1))
    assert "bytes" in set(of.differences().quantity)
    file.write_text(file.read_text().replace(",bytes", ",moved"))
    assert read_past(file).round_bytes is None and not forecast(read_past(file), horizon=2, futures=2).knows_bytes
    with pytest.raises(SimflError, match="no column 'moving'.*moved"):
        read_past(file, LogOptions({"bytes": "moving"}))
    file.write_text(file.read_text().replace(",100\n", ",x\n", 1))
    with pytest.raises(SimflError, match="'x' in column 'moved' is no number of bytes"):
        read_past(file, LogOptions({"bytes": "moved"}))


def test_rounds_without_a_sum_have_the_bytes_of_such_rounds():
    rows = uniform_log(12, np.full(10, 0.9), 4)
    rows[3] = 0
    moved = np.where(rows.any(axis=1), 400.0, 7.0)
    idle = past_of(Log(csr_array(rows), range(12), range(10)), round_bytes=moved)
    of = forecast(idle, ("batch_partition:T=5",), horizon=40, futures=3).outcomes[1]
    each = np.diff(of.bytes, axis=1, prepend=0.0)
    assert (each[of.cardinality == 0] == 7).all() and (each == 7).any() and (each > 7).any()


RUN = {"name": "past", "clients": 8, "selection": {"name": "random", "k": 4},
       "training": {"name": "fedavg", "rounds": 9}, "learning": {"name": "none", "parameters": 100},
       "devices": {"availability": {"name": "bernoulli", "dropout": 0.1}}}  # fmt: skip


def test_a_results_folder_says_its_bytes_and_what_cannot_be_forecast(tmp_path):
    done = run(Scenario.of(RUN), tmp_path).path
    past, table = read_past(done), pandas.read_csv(done / "rounds.csv")
    assert past.round_bytes.tolist() == (table.bytes_down + table.bytes_up).tolist()
    buffered = RUN | {"training": {"name": "fedbuff", "rounds": 9}}
    done = run(Scenario.of(buffered), tmp_path).path
    shown = CliRunner().invoke(simfl, ["forecast", str(done)])
    assert shown.exit_code == 2 and "training: fedbuff" in shown.output and "Traceback" not in shown.output


# -- watching a log --------------------------------------------------------------------------------


def test_a_warning_comes_before_the_round_in_which_the_guarantee_falls(tmp_path):
    file = tmp_path / "log.csv"
    batches = "".join(f"{t},c{i}\n" for t in range(12) for i in (range(4) if t % 2 else range(4, 8)))
    file.write_text("round,client\n" + batches)
    watching = ["audit", "--follow", str(file), "--interval", "0.01"]
    grown = CliRunner()
    mixed = batches + "".join(f"12,c{i}\n" for i in (0, 1, 2, 4))
    action = f"touch {tmp_path}/called-$SIMFL_ROUND"
    file.write_text("round,client\n" + mixed)
    below = grown.invoke(simfl, [*watching, "--floor", "strong=2", "--command", action])
    assert below.exit_code == 3 and "stop before round 13" in below.output, below.output
    assert (tmp_path / "called-13").exists()


def test_a_line_that_is_being_written_is_waited_for(tmp_path, monkeypatch):
    """Each wait of the watcher is the writer's turn."""
    from simfl.deployment.cli import audit

    file = tmp_path / "log.csv"
    whole = "round,client\n" + "".join(f"{t},a\n{t},b\n" for t in range(12))
    file.write_text(whole + "12")
    turns = iter([whole + "12,a\n12,b\n", whole, whole + "12,", whole + "12,a\n"])  # grown, replaced, half, broken

    class Turn:
        def wait(self, interval_s):
            file.write_text(next(turns))

    monkeypatch.setattr(audit, "Event", Turn)
    shown = CliRunner().invoke(simfl, ["audit", "--follow", str(file), "--floor", "strong=2"])
    assert [line.split(" ")[0] for line in shown.output.splitlines()[1:4]] == ["13", "12", "13"], shown.output
    assert shown.exit_code == 3


def test_a_log_is_watched_from_its_first_round_on(tmp_path, monkeypatch):
    from simfl.deployment.cli import audit

    file = tmp_path / "log.csv"
    file.write_text("round,client\n")
    turns = iter(["0,a\n0,b\n", "1,a\n1,b\n", "2,b\n"])

    class Turn:
        def wait(self, interval_s):
            with open(file, "a") as log:
                log.write(next(turns))

    monkeypatch.setattr(audit, "Event", Turn)
    shown = CliRunner().invoke(simfl, ["audit", "--follow", str(file), "--floor", "strong=2"])
    basis, *lines = shown.output.splitlines()
    assert "Against the server" in basis and "worst case" in basis and "(if only sums are seen)" in basis
    assert lines[0] == "1 round, 2 clients: strong 2; one round says nothing about the next"
    none = "one more round breaks it with probability below 0.14: none of 20 drawn ones does"
    assert lines[1] == f"2 rounds, 2 clients: strong 2; {none}"
    assert lines[2].startswith("3 rounds, 2 clients: strong 1") and shown.exit_code == 3


def test_next_rounds_are_drawn_from_the_policy_of_the_log():
    from simfl.deployment.forecasting.next_round import outlook

    safe = outlook(past_from(pairs(12)), {"strong": 2.0})
    assert safe.now["strong"] == 2 and safe.below["strong"] == 0
    rows = np.zeros((12, 20))
    rows[::2, :10], rows[1::2, 10:] = 1, 1
    unknown = outlook(past_from(rows), {"strong": 4.0})
    assert unknown.now["strong"] == 10 and unknown.below is None and "the log shows batch_partition" in unknown.unsaid
    loose = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    about_to_fall = outlook(past_from(loose), {"strong": 3.0})
    assert about_to_fall.now["strong"] == 3 and about_to_fall.below["strong"] > 0.5


@pytest.mark.parametrize(("words", "message"), [
    ([], "name the least guarantee"),
    (["--floor", "semistrong=3"], "semi_strong"),
    (["--floor", "weak=x"], "not a number"),
    (["--floor", "weak=1"], "above 1"),
    (["--floor", "weak=2", "--ledger"], "--ledger: leave it out with --follow"),
])  # fmt: skip
def test_bad_bounds_are_one_line(log, words, message):
    shown = CliRunner().invoke(simfl, ["audit", "--follow", str(log), *words])
    assert shown.exit_code == 2 and message in shown.output
    once = CliRunner().invoke(simfl, ["audit", str(log), "--floor", "weak=2"])
    assert once.exit_code == 2 and "--floor: is for --follow" in once.output
    folder = CliRunner().invoke(simfl, ["audit", "--follow", str(log.parent), "--floor", "weak=2"])
    assert folder.exit_code == 2 and "is a folder; name the file that grows" in folder.output
