"""What a log leaves possible of availability: the policy's chances by enumeration, posteriors by integration."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from simfl.deployment.forecasting.availability import Observed, fit
from simfl.deployment.forecasting.futures import _available
from simfl.deployment.forecasting.selection_chance import Selections, pairings

RNG = np.random.default_rng


def selections(rows, need, mode, circle=False, failing=0.0, used=None):
    rows = np.asarray(rows, dtype=bool)
    used = np.cumsum(rows, axis=0) - rows if used is None else used
    return Selections(rows, used, np.full(len(rows), need), mode, circle, failing)


def law(there, used, need, mode):
    """Each set of units that may be selected, with its probability, by the words of the policies."""
    units = np.flatnonzero(there)
    if len(units) < need:
        return {frozenset(): 1.0}
    sets = [frozenset(c) for c in itertools.combinations(units.tolist(), need)]
    if mode == "uniform":
        weight = dict.fromkeys(sets, 1.0)
    if mode == "fair":
        least = {i for i in units.tolist() if used[i] == used[units].min()}
        weight = {s: len(s & least) for s in sets}  # first one of them, then any others
    if mode == "least_total":
        cost = min(sum(used[list(s)]) for s in sets)
        weight = {s: float(sum(used[list(s)]) == cost) for s in sets}
    total = sum(weight.values())
    return {s: w / total for s, w in weight.items()}


@pytest.mark.parametrize("mode", ["uniform", "fair", "least_total"])
@pytest.mark.parametrize("failing", [0.0, 0.3])
def test_chances_of_rows_are_those_of_the_enumerated_policy(mode, failing):
    units, need, compared = 5, 2, 0
    for trial in range(30):
        used = RNG(trial).integers(0, 3, units)
        for size in range(0 if failing else need, need + 1):
            row = np.zeros(units, dtype=bool)
            row[RNG([trial, size]).choice(units, size, replace=False)] = True
            every = [np.array(a, dtype=bool) for a in itertools.product([0, 1], repeat=units)]
            every = [there for there in every if (there | ~row).all()]  # who is in a sum was there
            right = []
            for there in every:
                summed = set(np.flatnonzero(row).tolist())
                chances = law(there, used, need, mode).items()
                lost = sum(p * failing ** len(s - summed) for s, p in chances if summed <= s)
                right.append(lost * (1 - failing) ** size if size or there.sum() >= need else 1.0)
            seen = selections([row] * len(every), need, mode, failing=failing, used=np.tile(used, (len(every), 1)))
            ours = np.exp(np.maximum(seen.log_chance(np.array(every)), -700))
            if not row.any():
                assert ours == pytest.approx(right)
            elif sum(right):
                assert ours / ours.sum() == pytest.approx(np.array(right) / sum(right)), (mode, used, row)
                compared += 1
    assert compared > 25


def test_pairs_on_the_circle_are_counted():
    for trial in range(100):
        m = int(RNG(trial).integers(3, 9))
        there = RNG(trial).random((1, m)) < 0.8
        edges = [(i, (i + 1) % m) for i in range(m) if there[0, i] and there[0, (i + 1) % m]]
        right = [sum(len(set(sum(chosen, ()))) == 2 * size for chosen in itertools.combinations(edges, size))
                 for size in range(4)]  # fmt: skip
        assert pairings(there, 3)[:, 0].tolist() == right


def law_of_pairs(there, used, need, mode):
    """Each set of starts of pairs that may be selected, with its probability, by the words of half partitioning."""
    m = len(there)
    starts = [i for i in range(m) if there[i] and there[(i + 1) % m]]
    members = {c: {h for i in c for h in (i, (i + 1) % m)} for c in itertools.combinations(starts, need)}
    valid = [c for c, halves in members.items() if len(halves) == 2 * need]
    if not valid:
        return {}
    if mode == "uniform":
        return dict.fromkeys(valid, 1 / len(valid))
    able = {h for c in valid for h in members[c]}  # first one of the least used, then a row that holds it
    tied = [h for h in able if used[h] == min(used[i] for i in able)]
    chances = dict.fromkeys(valid, 0.0)
    for first in tied:
        holding = [c for c in valid if first in members[c]]
        for c in holding:
            chances[c] += 1 / len(tied) / len(holding)
    return chances


@pytest.mark.parametrize("mode", ["uniform", "fair"])
@pytest.mark.parametrize("failing", [0.0, 0.3])
def test_chances_of_rows_of_pairs_are_those_of_the_enumerated_policy(mode, failing):
    m, need, compared = 7, 2, 0
    for trial in range(30):
        used, rng = RNG(trial).integers(0, 3, m), RNG([trial, 1])
        every = [np.array(a, dtype=bool) for a in itertools.product([0, 1], repeat=m)]
        laws = [law_of_pairs(there, used, need, mode) for there in every]
        some = [law for law in laws if law]
        starts = sorted(some[rng.integers(len(some))])[0][: int(rng.integers(1, 3)) if failing else need]
        row = np.isin(np.arange(m), [h for i in starts for h in (i, (i + 1) % m)])
        right = []
        for law in laws:
            lost = [(p, set(c) - set(starts)) for c, p in law.items() if set(starts) <= set(c)]
            right.append(sum(p * failing ** len(gone) for p, gone in lost) * (1 - failing) ** len(starts))
        among = [i for i, there in enumerate(every) if (there | ~row).all()]
        right = np.array(right)[among]
        seen = selections([row] * len(among), need, mode, True, failing, np.tile(used, (len(among), 1)))
        ours = np.exp(np.maximum(seen.log_chance(np.array(every)[among]), -700))
        assert ours / ours.sum() == pytest.approx(right / right.sum()), (used, row)
        compared += 1
        nobody = selections([np.zeros(m)] * len(every), need, mode, True, failing, np.tile(used, (len(every), 1)))
        lost = np.exp(nobody.log_chance(np.array(every)))
        assert lost == pytest.approx([max(failing**need, 1e-6) if law else 1.0 for law in laws])
    assert compared == 30


def exact(chance_of_log):
    """Mean and standard deviation of the common rate, by integration over its level."""
    levels = np.linspace(-4, 4, 121)
    weight = np.array([chance_of_log(float(ndtr(level))) for level in levels]) * norm(0.3, 1.5).pdf(levels)
    weight /= weight.sum()
    mean = float(weight @ ndtr(levels))
    return mean, float(np.sqrt(weight @ (ndtr(levels) - mean) ** 2))


def test_the_rate_of_alike_clients_has_its_exact_posterior():
    rows = RNG(1).random((10, 4)) < 0.4
    ones = int(rows.sum())
    mean, deviation = exact(lambda p: p**ones * (1 - p) ** (40 - ones))
    rates = ndtr(
        fit(Observed(selections(rows, 0, "all"), {"all": 1.0}, np.zeros(0, int)), "constant", RNG(0)).levels[:, 0]
    )
    assert rates.mean() == pytest.approx(mean, abs=0.02) and rates.std() == pytest.approx(deviation, rel=0.3)


@pytest.mark.parametrize("mode", ["uniform", "fair", "least_total"])
def test_the_rate_behind_selections_has_its_exact_posterior(mode):
    """One of three alike units is selected in each of 14 rounds, some of which had nobody: summed over all
    availabilities that nobody has seen."""
    rows, rng, used = np.zeros((14, 3), dtype=bool), RNG(5), np.zeros(3, int)
    for row in rows:
        there = rng.random(3) < 0.45
        if there.any():
            chances = law(there, used, 1, mode)
            chosen = list(chances)[rng.choice(len(chances), p=list(chances.values()))]
            row[list(chosen)] = True
            used += row
    every = [np.array(a, dtype=bool) for a in itertools.product([0, 1], repeat=3)]

    def chance(p):
        total, used = 1.0, np.zeros(3, int)
        for row in rows:
            total *= sum(p ** a.sum() * (1 - p) ** (3 - a.sum()) * law(a, used, 1, mode).get(
                frozenset(np.flatnonzero(row).tolist()), 0.0) for a in every)  # fmt: skip
            used = used + row
        return total

    mean, deviation = exact(chance)
    fitted = [
        fit(Observed(selections(rows, 1, mode), {mode: 1.0}, np.zeros(0, int)), "constant", RNG(s)) for s in range(4)
    ]
    rates = np.concatenate([ndtr(each.levels[:, 0]) for each in fitted])
    assert rates.mean() == pytest.approx(mean, abs=0.03) and rates.std() == pytest.approx(deviation, rel=0.3)


@pytest.mark.parametrize("mode", ["uniform", "fair"])
def test_the_rate_behind_single_pairs_that_may_fail_has_its_exact_posterior(mode):
    """One pair of four alike half-batches is selected in each of 14 rounds, and three of the pairs fail unseen: summed
    over all availabilities, and over how often pairs fail (a Beta(1/2, 1/2) law)."""
    rows, rng, used = np.zeros((14, 4), dtype=bool), RNG(5), np.zeros(4, int)
    every = [np.array(a, dtype=bool) for a in itertools.product([0, 1], repeat=4)]
    for t, row in enumerate(rows):
        chances = law_of_pairs(rng.random(4) < 0.6, used, 1, mode)
        if chances and t not in (2, 5, 9):
            start = list(chances)[rng.choice(len(chances), p=list(chances.values()))][0]
            row[[start, (start + 1) % 4]] = True
            used += row
    before = np.cumsum(rows, axis=0) - rows
    starts = [next((c for c in range(4) if row[c] and row[(c + 1) % 4]), None) for row in rows]
    selected = [[law_of_pairs(a, b, 1, mode).get((start,), 0.0) if start is not None else float(not law_of_pairs(
        a, b, 1, mode)) for a in every] for b, start in zip(before, starts, strict=True)]  # fmt: skip
    failing = np.sin((np.arange(200) + 0.5) / 200 * np.pi / 2) ** 2

    def chance(p):
        once = np.array(selected) @ [p ** a.sum() * (1 - p) ** (4 - a.sum()) for a in every]
        shown = rows.any(axis=1)[:, None]
        rounds = np.where(shown, once[:, None] * (1 - failing), once[:, None] + failing * (1 - once[:, None]))
        return float(rounds.prod(axis=0).mean())

    mean, deviation = exact(chance)
    seen = Observed(selections(rows, 1, mode, circle=True), {mode: 1.0}, np.zeros(0, int))
    rates = np.concatenate([ndtr(fit(seen, "constant", RNG(s)).levels[:, 0]) for s in range(8)])
    assert rates.mean() == pytest.approx(mean, abs=0.04) and rates.std() == pytest.approx(deviation, rel=0.3)


def test_memory_hours_and_groups_are_found_where_they_are():
    rng, rounds, n = RNG(8), 160, 12
    chains = np.zeros((rounds, n), dtype=bool)
    state = rng.random(n) < 0.5
    for t in range(rounds):
        state = np.where(state, rng.random(n) > 0.1, rng.random(n) < 0.1)
        chains[t] = state
    by_hour = rng.random((rounds, n)) < np.where(np.arange(rounds)[:, None] % 8 < 3, 0.8, 0.2)
    groups = np.repeat(rng.random((rounds, 2)) < 0.5, n // 2, axis=1) & (rng.random((rounds, n)) < 0.9)
    alike = rng.random((rounds, n)) < 0.5
    hours = np.arange(rounds) % 8

    def of(rows):
        return fit(Observed(selections(rows, 0, "all"), {"all": 1.0}, hours), "mixed", RNG(0))

    assert of(chains).memory.mean() > 1.5 > 0.3 > abs(of(alike).memory.mean())
    on = np.array([of(by_hour).draw(rng).chances(np.array([1, 6]), rng)[0].mean(axis=1) for _ in range(1)])
    assert on[:, 0].mean() > 0.6 > 0.4 > on[:, 1].mean()
    together, apart = of(groups).loads, of(alike).loads
    shared = np.einsum("smk,snk->smn", together, together).mean(axis=0)
    assert shared[0, 1] > 1 and shared[7, 8] > 1 and abs(shared[0, 7]) < 0.5 * shared[0, 1]
    assert np.einsum("smk,snk->smn", apart, apart).mean(axis=0)[0, 1] < 0.2


def test_units_of_clients_are_available_as_often_and_as_long_as_their_draw_says():
    units, rounds = np.repeat(np.arange(3), [1, 2, 4]), 40_000
    on, off = np.array([0.9, 0.8, 0.7]), np.array([0.3, 0.2, 0.4])
    rows = _available(units, np.zeros(3, bool), np.tile(on, (rounds, 1)), np.tile(off, (rounds, 1)),
                      RNG(0).random((rounds + 1, 7)))  # fmt: skip
    for unit in range(3):
        whole = rows[:, units == unit].all(axis=1)
        assert whole.mean() == pytest.approx(off[unit] / (1 - on[unit] + off[unit]), abs=0.015)
        assert whole[1:][whole[:-1]].mean() == pytest.approx(on[unit], abs=0.015)
