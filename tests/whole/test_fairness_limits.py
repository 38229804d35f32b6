"""Theorem 1's fairness gap by selection rule: counter-example, step of the proof, limits."""

import itertools
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy.optimize import linprog

from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2] / "results" / "theorems"


@pytest.fixture
def fairness(monkeypatch):
    return imported(HERE / "fairness_limits.py", monkeypatch)


@pytest.fixture
def table():
    return pandas.read_csv(HERE / "fairness_limits.csv")


def worlds(available, k):
    """Every set of available batches that has k of them, and how likely it is."""
    for here in itertools.product((0, 1), repeat=len(available)):
        if sum(here) >= k:
            yield np.flatnonzero(here), np.prod([a if h else 1 - a for a, h in zip(available, here, strict=True)])


def most_of_two_rare_batches(here, rare, k):
    """What a row with at least one particular batch, and any others, gives two batches at most, in expectation."""
    inside = len(np.intersect1d(here, rare))
    if not inside:
        return 0.0
    return 1 + (inside - 1) * (k - 1) / (len(here) - 1)


def test_the_text_s_rule_leaves_a_gap_that_another_rule_closes(fairness):
    """Four batches, two of them always there, two with probability .55, K / T = 2: by enumeration, no simulation.

    However the past is, the text's rule takes the least-used batch and another at random: the rare two have at most
    0.8983 participations a round, the others at least 1.1017. Shares of 1/2 for all are possible, and the least-used
    pair reaches them: its squared distance from level shares grows by at most K / T a round.
    """
    available, rare, k = np.array([1, 1, 0.55, 0.55]), np.array([2, 3]), 2
    most = sum(chance * most_of_two_rare_batches(here, rare, k) for here, chance in worlds(available, k))
    assert most == pytest.approx(2 * 0.55 * 0.45 + 0.55**2 * 4 / 3) and most < 0.8984
    gap = (2 - most) / 2 - most / 2
    assert gap > 0.1016
    assert fairness.text_floor(available, k) == pytest.approx(gap)
    np.testing.assert_allclose(fairness.least_square_shares(available, k), 0.5)
    played = {
        name: fairness.gaps(rule, 1 - available, 1, k, (20_000,), np.random.default_rng(0))[20_000]
        for name, rule in fairness.RULES.items()
    }
    assert played["text"] > gap - 0.02 and played["least_total"] < 2 * np.sqrt(k / 20_000)


def test_the_least_used_batches_give_the_least_to_whoever_is_ahead(fairness):
    """The step of the proof: over all rules, least_total has the least sum of use times participation, set by set."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        size = int(rng.integers(2, 7))
        k, used = int(rng.integers(1, size + 1)), rng.integers(0, 5, 8).astype(float)
        usable = np.sort(rng.choice(8, size, replace=False))
        taken = fairness.least_total(usable, used, k, rng)
        every = [used[list(row)].sum() for row in itertools.combinations(usable, k)]
        assert len(set(taken)) == k and set(taken) <= set(usable) and used[taken].sum() == min(every)


def test_limits_are_those_of_a_linear_programme_over_every_rule(fairness):
    """Random availability of up to five batches: what any rule at all can do, and what a uniform row does."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        size = int(rng.integers(2, 6))
        k, available = int(rng.integers(1, size + 1)), np.sort(rng.random(size))
        sets = list(worlds(available, k))
        width = len(sets) * size
        shares = np.zeros((size, width + 2))
        whole = np.zeros((len(sets), width + 2))
        bounds = []
        for i, (here, chance) in enumerate(sets):
            shares[range(size), range(i * size, (i + 1) * size)] = chance
            whole[i, i * size : (i + 1) * size] = 1
            bounds += [(0, float(b in here)) for b in range(size)]
        above, below = shares.copy(), -shares
        above[:, -1], below[:, -2] = -1, 1
        cost = np.zeros(width + 2)
        cost[-2:] = -1, 1
        best = linprog(cost, np.vstack([above, below]), np.zeros(2 * size), whole, np.full(len(sets), k),
                       bounds=[*bounds, (0, 1), (0, 1)])  # fmt: skip
        assert np.ptp(fairness.least_square_shares(available, k)) == pytest.approx(best.fun, abs=1e-7)
        expected = sum(chance * np.isin(np.arange(size), here) * k / len(here) for here, chance in sets)
        np.testing.assert_allclose(fairness.uniform_shares(available, k), expected)


def test_the_stored_gaps_are_those_of_the_script_and_tend_to_their_limits(fairness, table):
    again = pandas.DataFrame(fairness.rows_of(0, 6, "unequal"))
    first = again.merge(table, on=["rule", "dropouts", "T", "seed", "rounds"], suffixes=("", "_stored"))
    assert len(first) == 12 and (first.gap - first.gap_stored).abs().max() < 1e-4
    last = table[table["rounds"] == 30_000]
    known = last[last.limit.notna()]
    assert ((known.gap - known.limit).abs() < 0.015).all()
    assert (last[last.dropouts == "equal"].limit == 0).all()
    assert (last.gap > last["least"] - 0.015).all(), "no rule goes below what any can"
    assert (last.gap > last.floor - 0.015).all()
    unequal = last[(last.dropouts == "unequal") & (last.rule == "text")]
    assert (unequal.floor > 0.02).all(), "proven, not only seen, in every draw"
    assert (unequal[unequal["T"] == 3]["least"] == 0).all() and unequal[unequal["T"] == 3].gap.min() > 0.03
