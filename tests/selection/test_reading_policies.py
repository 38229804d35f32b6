"""Policies that read what the server learns of its clients, each beside a plain loop over clients."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.errors import PluginError
from simfl.core.types import View
from simfl.selection.asking import ask, observe, shuffle_clients
from simfl.selection.base import POLICIES
from simfl.selection.units.blocks import draw_by_weight
from tests.support.policies import informed

N = 15
ROUNDS = 200


def play(policy, rounds=ROUNDS, seed=0, dropout=0.2):
    """Views of a made-up run, what the policy selects in each, and the state that it leaves."""
    rng = np.random.default_rng(seed)
    participation, state = np.zeros(N, dtype=np.int64), policy.start(N)
    seconds, samples = rng.lognormal(1.0, 1.0, N), rng.integers(5, 50, N).astype(float)
    known = {name: np.full(N, np.nan) for name in ("seconds", "loss", "loss_rms", "accuracy", "last_round")}
    known |= {"samples": samples, "estimate_s": seconds, "upload_estimate_s": seconds * rng.random(N)}
    for t in range(rounds):
        available = rng.random(N) >= dropout
        reports = {name: values.copy() for name, values in known.items() if name in policy.reads}
        if policy.asks:
            asked = policy.candidates(
                View(t, available, participation, reports, state), policy.k, np.random.default_rng(t)
            )
            assert available[asked].all() and len(set(asked.tolist())) == len(asked)
            reports["asked_loss"] = np.full(N, np.nan)
            answering = asked[rng.random(len(asked)) < 0.9]
            reports["asked_loss"][answering] = np.round(rng.gamma(1.0, 1.0, len(answering)), 1)
        view = View(t, available, participation.copy(), reports, state)
        units = ask(policy, view, policy.k, np.random.default_rng(t))
        yield view, units.ravel().tolist(), np.random.default_rng(t)
        summed = np.sort(units.ravel()[rng.random(units.size) < 0.9]).astype(np.int32)
        participation[summed] += 1
        loss = rng.gamma(2.0, 2.0 / (1 + t / 40), N)
        for name, values in (("seconds", seconds * rng.lognormal(0, 0.2, N)), ("loss", loss), ("loss_rms", loss * 1.2),
                             ("accuracy", rng.random(N)), ("last_round", np.full(N, float(t)))):  # fmt: skip
            known[name][summed] = values[summed]
        now = {name: values for name, values in known.items() if name in policy.reads}
        state = observe(policy, View(t, np.ones(N, bool), participation.copy(), now, state), summed)


def weighted(clients, weights, count, rng):
    """Draws one by one with probability proportional to weight, by the clock: the next of exponential times."""
    times = rng.exponential(size=N)
    waiting = {client: times[client] / weights[client] for client in clients}
    drawn = []
    while waiting and len(drawn) < count:
        first = min(waiting, key=lambda client: waiting[client])
        drawn.append(first)
        del waiting[first]
    return sorted(drawn)


def test_draws_by_weight_have_the_probabilities_of_draws_without_replacement():
    """Of weights 1, 2, 5 the ordered draws of two have probabilities w_i / 8 * w_j / (8 - w_i)."""
    weights, pairs = np.array([1.0, 2.0, 5.0]), {(0, 1): 0, (0, 2): 0, (1, 2): 0}
    draws = 40_000
    for seed in range(draws):
        pairs[tuple(draw_by_weight(np.arange(3), weights, 2, np.random.default_rng(seed)).tolist())] += 1
    for (i, j), count in pairs.items():
        p = weights[i] / 8 * weights[j] / (8 - weights[i]) + weights[j] / 8 * weights[i] / (8 - weights[j])
        assert abs(count - draws * p) < 5 * math.sqrt(draws * p * (1 - p))


# -- Power-of-choice --------------------------------------------------------------------------------


@pytest.mark.parametrize("losses", ["exact", "estimated", "remembered"])
def test_power_of_choice_beside_a_loop(losses):
    policy = POLICIES["power_of_choice"](k=3, d=7, losses=losses)
    selections = 0
    for view, selected, rng in play(policy):
        if losses == "remembered":
            here = [client for client in range(N) if view.available[client]]
            candidates = weighted(here, view.samples, 7, rng)
            loss = {c: math.inf if math.isnan(view.loss[c]) else view.loss[c] for c in candidates}
        else:
            loss = {c: view.asked_loss[c] for c in range(N) if not math.isnan(view.asked_loss[c])}
        place = {client: rank for client, rank in enumerate(rng.permutation(N).tolist())}
        best = sorted(loss, key=lambda client: (-loss[client], place[client]))[:3]
        assert selected == sorted(best)
        selections += len(selected)
    assert selections > 2.5 * ROUNDS


def test_power_of_choice_draws_its_candidates_by_samples():
    policy = POLICIES["power_of_choice"](k=3, d=7)
    for view, _, _ in play(policy, rounds=30):
        here = [client for client in range(N) if view.available[client]]
        candidates = policy.candidates(view, 3, np.random.default_rng(5))
        assert candidates.tolist() == weighted(here, view.samples, 7, np.random.default_rng(5))


def test_with_as_many_candidates_as_are_selected_power_of_choice_takes_all_of_them():
    policy = POLICIES["power_of_choice"](k=4, d=4)
    for view, selected, _ in play(policy, rounds=30):
        assert selected == np.flatnonzero(~np.isnan(view.asked_loss)).tolist()


# -- Oort -------------------------------------------------------------------------------------------


def oort_by_hand(policy, view, rng):
    """The public code's steps with a loop over clients, with this repository's draws."""
    here = [client for client in range(N) if view.available[client]]
    if len(here) < policy.k:
        return []
    t = view.round + 1
    duration = [view.estimate_s[c] if math.isnan(view.seconds[c]) else view.seconds[c] for c in range(N)]
    percentile = float(view.state["percentile"])
    preferred = math.inf if percentile >= 100 else sorted(duration)[min(int(N * percentile / 100), N - 1)]
    slow = [(preferred / duration[c]) ** policy.penalty if duration[c] > preferred else 1.0 for c in range(N)]
    reward = {c: view.samples[c] * view.loss_rms[c] for c in here if not math.isnan(view.loss_rms[c])}
    new = [c for c in here if c not in reward]
    positive = sorted(reward.values())
    score = {}
    for client, gain in reward.items():
        top = positive[min(int(len(positive) * policy.clip), len(positive) - 1)]
        low = positive[0] * 0.999
        scaled = (min(gain, top) - low) / max(positive[-1] - low, 1e-4)
        uncertainty = math.sqrt(0.1 * math.log(t) / (view.last_round[client] + 1))
        score[client] = abs((scaled + uncertainty) * slow[client])
    share = max(policy.exploration * policy.exploration_decay**t, policy.exploration_min)
    exploited = min(policy.k - min(int(policy.k * share), len(new)), len(score))
    exploited = max(exploited, policy.k - len(new))
    selected = []
    if exploited:
        order = sorted(score, key=lambda c: (-score[c], c))
        cut = policy.cut_off * score[order[min(exploited, len(order) - 1)]]
        pool = []
        for client in order:
            if score[client] < cut and len(pool) > 10 * exploited:
                break
            pool.append(client)
        selected += weighted(pool, {c: max(score[c], 1e-12) for c in pool}, exploited, rng)
    gain = {c: view.samples[c] * slow[c] for c in new}
    wanted = policy.k - exploited
    window = sorted(new, key=lambda c: (-gain[c], c))[: int(policy.sample_window * wanted)]
    return sorted(selected + weighted(window, {c: max(gain[c], 1e-12) for c in window}, wanted, rng))


@pytest.mark.parametrize("changes", [{}, {"exploration": 0.2, "exploration_min": 0.0, "cut_off": 0.95, "clip": 0.5},
                                     {"percentile": 100.0, "penalty": 0.0, "sample_window": 1.0}])  # fmt: skip
def test_oort_beside_a_loop(changes):
    policy = POLICIES["oort"](k=4, **changes)
    for view, selected, rng in play(policy):
        if view.round == 0:
            by_hand = oort_by_hand(policy, view, rng)  # nobody is known, so that the first draw is the explorers'
            assert selected == by_hand
            continue
        assert selected == oort_by_hand(policy, view, rng)


def test_oorts_pacer_moves_by_what_was_collected():
    """Three windows of two rounds: flat utility raises the percentile, a fivefold one lowers it, else it stays."""
    policy = POLICIES["oort"](k=2, pacer_step=2, percentile=30.0, pacer_delta=5.0)
    summed, participation = np.array([0, 1], dtype=np.int32), np.full(N, 5, dtype=np.int64)
    state, seen = policy.start(N), []
    for t, gain in enumerate([10.0, 10.0, 10.0, 10.0, 60.0, 70.0, 70.0, 110.0, 100.0, 80.0]):
        reports = {name: np.full(N, 1.0) for name in policy.reads} | {"loss_rms": np.full(N, gain)}
        state = policy.observe(View(t, np.ones(N, bool), participation, reports, state), summed)
        seen.append(float(state["percentile"]))
    # sums of two: 20, then 20 (flat: up), 130 (550 % more: down), 180 (38 % more: stays), 180 (flat: up)
    assert seen == [30, 30, 30, 35, 35, 30, 30, 30, 30, 35]


def test_who_was_explored_does_not_move_oorts_pacer():
    policy = POLICIES["oort"](k=2)
    first = np.ones(N, dtype=np.int64)
    reports = {name: np.full(N, 3.0) for name in policy.reads}
    state = policy.observe(View(0, np.ones(N, bool), first, reports, policy.start(N)), np.array([0, 1], dtype=np.int32))
    assert state["collected"].tolist() == [0.0]


# -- FedCS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline_s", [0.01, 5.0, 20.0, 1e6])
def test_fedcs_beside_a_loop(deadline_s):
    policy = POLICIES["fedcs"](k=8, deadline_s=deadline_s)
    for view, selected, rng in play(policy):
        left = [client for client in rng.permutation(N).tolist() if view.available[client]][:8]
        end, taken = 0.0, []
        while left:
            added = []
            for client in left:
                upload = view.upload_estimate_s[client]
                added.append(upload + max(0.0, view.estimate_s[client] - upload - end))
            client = left[added.index(min(added))]
            left.remove(client)
            if end + min(added) <= deadline_s:
                end += min(added)
                taken.append(client)
        assert selected == sorted(taken)
        assert deadline_s < 1e6 or len(selected) == min(8, view.available.sum())


def test_fedcs_of_three_clients_by_hand():
    """Rest 1, 4, 9 s and uploads 2, 2, 1 s: they end at 3, 6 and 10 s, since the third trains while others upload."""
    reports = {"estimate_s": np.array([3.0, 6.0, 10.0]), "upload_estimate_s": np.array([2.0, 2.0, 1.0])}
    view = View(0, np.ones(3, bool), np.zeros(3, np.int64), reports)
    for deadline_s, selected in ((2.9, []), (3, [0]), (5.9, [0]), (6, [0, 1]), (9.9, [0, 1]), (10, [0, 1, 2])):
        policy = POLICIES["fedcs"](k=3, deadline_s=deadline_s)
        assert policy.select(view, 3, np.random.default_rng(0)).ravel().tolist() == selected


# -- TiFL -------------------------------------------------------------------------------------------


def tier_by_hand(view, tiers):
    order = sorted(range(N), key=lambda client: (view.estimate_s[client], client))
    return {client: place * tiers // N for place, client in enumerate(order)}


def tifl_by_hand(policy, view, rng, chances):
    tier = tier_by_hand(view, policy.tiers)
    there = [sum(view.available[c] for c in range(N) if tier[c] == m) >= policy.k for m in range(policy.tiers)]
    left = [chance if here else 0.0 for chance, here in zip(chances, there)]
    if not any(left):
        left = [float(here) for here in there]
    draw, order = rng.random(), rng.permutation(N).tolist()
    if not any(there):
        return []
    at, drawn = 0.0, None
    for m, chance in enumerate(left):
        at += chance
        if drawn is None and draw < at / sum(left):
            drawn = m
    return sorted([c for c in order if tier[c] == drawn and view.available[c]][: policy.k])


@pytest.mark.parametrize("probabilities", [None, (5.0, 0.0, 1.0)])
def test_static_tiers_beside_a_loop(probabilities):
    policy = POLICIES["tifl"](k=3, tiers=3, adaptive=False, probabilities=probabilities)
    tiers = set()
    for view, selected, rng in play(policy, dropout=0.3):
        assert selected == tifl_by_hand(policy, view, rng, probabilities or (1.0, 1.0, 1.0))
        tiers |= {tier_by_hand(view, 3)[client] for client in selected}
    assert tiers == {0, 1, 2}  # also the one without chance, where the others are not there


def test_adaptive_tiers_beside_a_loop():
    """Credits and probabilities as in algorithm 2, kept by hand over 200 rounds."""
    policy = POLICIES["tifl"](k=3, tiers=3, interval=4, credits=12)
    chances, credits, before, last = [1 / 3] * 3, [12] * 3, [math.nan] * 3, None
    changed, refilled, previous = 0, 0, None
    for view, selected, rng in play(policy, dropout=0.1):
        if previous is not None:  # what the last round left behind
            t, participation = previous
            tier = tier_by_hand(view, 3)
            summed = [c for c in range(N) if view.participation[c] > participation[c]]
            if summed:
                last = tier[summed[0]]
                credits[last] = max(0, credits[last] - 1)
                if not any(credits):
                    credits, refilled = [12] * 3, refilled + 1
            if (t + 1) % 4 == 0:
                now = []
                for m in range(3):
                    known = [view.accuracy[c] for c in range(N) if tier[c] == m and not math.isnan(view.accuracy[c])]
                    now.append(sum(known) / len(known) if known else math.nan)
                if last is not None and now[last] <= before[last]:
                    changed += 1
                    left = sorted((m for m in range(3) if credits[m] > 0),
                                  key=lambda m: -1.0 if math.isnan(now[m]) else now[m])  # fmt: skip
                    n, chances = len(left), [0.0] * 3
                    for i, m in enumerate(left, start=1):
                        chances[m] = 1.0 if n == 1 else (n - i) / (n * (n - 1) / 2)
                before = now
        expected = tifl_by_hand(policy, view, rng, [c if credit else 0.0 for c, credit in zip(chances, credits)])
        assert selected == expected
        previous = view.round, view.participation.copy()
    assert changed > 5 and refilled > 1


# -- all of them ------------------------------------------------------------------------------------

READERS = [name for name in POLICIES if POLICIES.of({"name": name, **POLICIES[name].example}).reads]


@pytest.mark.parametrize("name", READERS)
@given(seed=st.integers(0, 10**6), t=st.integers(0, 300))
@settings(max_examples=25, deadline=None)
def test_a_shuffled_policy_is_the_same_over_renamed_clients(name, seed, t):
    policy = POLICIES[name](**POLICIES[name].example)
    rng = np.random.default_rng(seed)
    view = informed(policy, View(t, rng.random(N) < 0.8, rng.integers(0, 3, N)), seed)
    order = rng.permutation(N)
    places = np.argsort(order)
    outside = View(
        t,
        view.available[places],
        view.participation[places],
        {k: v[places] for k, v in view.reports.items()},
        view.state,
    )
    moved = shuffle_clients(policy, order)
    inside = policy.select(view, policy.k, np.random.default_rng(seed))
    assert np.array_equal(moved.select(outside, policy.k, np.random.default_rng(seed)), order[inside])
    summed = np.sort(inside.ravel()).astype(np.int32)
    expected, got = policy.observe(view, summed), moved.observe(outside, np.sort(order[summed]).astype(np.int32))
    assert expected.keys() == got.keys()
    for key, value in expected.items():
        assert np.array_equal(value, got[key], equal_nan=True) or key == "last"


def test_what_is_not_declared_is_not_shown():
    view = View(0, np.ones(3, bool), np.zeros(3, np.int64), {"loss": np.zeros(3)})

    class Peeping(type(POLICIES["random"](k=1))):
        def select(self, view, k, rng):
            return view.loss

    with pytest.raises(PluginError, match="looks at view.loss, which its `reads` does not declare"):
        ask(Peeping(k=1), view, 1, np.random.default_rng(0))
