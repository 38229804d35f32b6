"""The law of every choice, by chi-square against the enumerated family: uniform and fair, whole and partial."""

from collections import Counter
from math import ceil, comb

import numpy as np
import pytest
from scipy.stats import chisquare

from simfl.core.types import View
from simfl.selection.base import POLICIES
from simfl.selection.units import circle
from simfl.selection.units.circle import draw_pairs
from tests.support.selection_brute import law

ALPHA = 1e-4
"""Each of the tests below fails by chance for one seed in ten thousand; the seeds are fixed."""


def check_law(policy, n, k, t, view, draws, seed=0):
    """So many selections that each row is expected 20 times, at most ``draws``, have the law that enumeration gives."""
    mode = getattr(policy, "mode", "uniform")
    expected = law(policy.name, n, k, t, mode, view)
    draws = min(draws, ceil(20 / min(expected.values())))
    rng = np.random.default_rng(seed)
    seen = Counter(tuple(np.sort(policy.select(view, k, rng), axis=None).tolist()) for _ in range(draws))
    assert set(seen) <= set(expected)
    assert min(expected.values()) * draws >= 5, "too few draws for a chi-square test"
    if len(expected) > 1:
        observed = [seen[row] for row in expected]
        assert chisquare(observed, [p * draws for p in expected.values()]).pvalue > ALPHA


def view_of(pattern, participation=None):
    available = np.array([c == "1" for c in pattern])
    used = np.zeros(len(available), np.int64) if participation is None else np.array(participation, np.int64)
    return View(3, available, used)


HALVES = [
    pytest.param(12, 4, 2, "1" * 12, id="circle"),
    pytest.param(8, 8, 2, "1" * 8, id="everyone"),
    pytest.param(12, 6, 2, "111011111111", id="one gap"),
    pytest.param(12, 6, 2, "111011110111", id="two runs"),
    pytest.param(12, 6, 2, "111111100111", id="run over the end"),
    pytest.param(12, 8, 2, "110111101111", id="forced"),
    pytest.param(14, 6, 2, "11011100111110", id="three runs"),
    pytest.param(24, 8, 4, "111111011111111111111111", id="T 4"),
    pytest.param(12, 2, 2, "111011110111", id="one unit asked for"),
    pytest.param(4, 4, 4, "1111", id="two half-batches"),
]


@pytest.mark.parametrize("tries", [circle.TRIES, 0], ids=["as it is", "counting"])
@pytest.mark.parametrize(("n", "k", "t", "pattern"), HALVES)
def test_half_partition_is_uniform(n, k, t, pattern, tries, monkeypatch):
    monkeypatch.setattr(circle, "TRIES", tries)
    policy = POLICIES["half_partition"](k=max(k, t), T=t, mode="uniform")
    check_law(policy, n, k, t, view_of(pattern), 1200)


@pytest.mark.parametrize(("used", "tries"), [("one", circle.TRIES), ("mixed", circle.TRIES), ("zero", 0), ("mixed", 0)])
@pytest.mark.parametrize(("n", "k", "t", "pattern"), HALVES)
def test_half_partition_is_fair(n, k, t, pattern, used, tries, monkeypatch):
    """A single least-used client, all equal, or small random counts with ties in available and other clients."""
    monkeypatch.setattr(circle, "TRIES", tries)
    rng = np.random.default_rng(n + k)
    participation = {"zero": np.zeros(n), "one": 1 + np.arange(n) ** 2 % n, "mixed": rng.integers(0, 3, n)}[used]
    policy = POLICIES["half_partition"](k=max(k, t), T=t, mode="fair")
    check_law(policy, n, k, t, view_of(pattern, participation), 700)


def test_half_partition_counts_over_random_views(monkeypatch):
    """Random availability and participation, counting only, drawn and enumerated together: one test for all."""
    monkeypatch.setattr(circle, "TRIES", 0)
    rng = np.random.default_rng(11)
    excess, freedom = 0.0, 0
    for case in range(10):
        n, k = 14, int(rng.choice([2, 4, 6, 8]))
        view = View(0, rng.random(n) < 0.85, rng.integers(0, 4, n))
        policy = POLICIES["half_partition"](k=k, T=2, mode=["uniform", "fair"][case % 2])
        expected = law("half_partition", n, k, 2, policy.mode, view)
        if len(expected) < 2:
            continue
        draws = 250
        seen = Counter(tuple(np.sort(policy.select(view, k, rng), axis=None).tolist()) for _ in range(draws))
        assert set(seen) <= set(expected)
        excess += sum((seen[row] - p * draws) ** 2 / (p * draws) for row, p in expected.items()) - len(expected) + 1
        freedom += len(expected) - 1
    assert freedom > 80
    assert abs(excess) < 5 * np.sqrt(2 * freedom) * 1.5  # chi-square: variance twice the degrees of freedom


@pytest.mark.parametrize(("k", "t"), [(4, 2), (2, 2), (6, 2), (3, 1), (6, 3)])
@pytest.mark.parametrize("mode", ["uniform", "fair"])
def test_batch_partition(k, t, mode):
    for seed, pattern in enumerate(["1" * 12, "110111111101", "111111011111"]):
        view = view_of(pattern, np.random.default_rng(seed + k).integers(0, 3, 12))
        policy = POLICIES["batch_partition"](k=6, T=t, mode=mode)
        if law("batch_partition", 12, k, t, mode, view):
            check_law(policy, 12, k, t, view, 3000)


@pytest.mark.parametrize("mode", ["uniform", "fair"])
def test_partition(mode):
    for seed, pattern in enumerate(["1" * 12, "111111111101"]):
        for participation in (None, np.random.default_rng(seed).integers(0, 2, 12), np.arange(12)[::-1]):
            check_law(
                POLICIES["partition"](k=3, mode=mode), 12, 3, None, view_of(pattern, participation), 2000, seed=seed
            )


@pytest.mark.parametrize("k", [3, 1])
def test_random(k):
    for pattern in ("1" * 8, "11011101"):
        check_law(POLICIES["random"](k=3), 8, k, None, view_of(pattern), 3000)


def test_weighted_takes_the_least_used_and_breaks_ties_uniformly():
    policy = POLICIES["weighted"](k=4)
    view = view_of("1111011111", [0, 2, 1, 1, 0, 1, 5, 1, 2, 9])
    rng = np.random.default_rng(0)
    seen = Counter(tuple(policy.select(view, 4, rng).ravel().tolist()) for _ in range(3000))
    # client 0 is surely in, of the four clients used once three are
    assert set(seen) == {(0, 2, 3, 5), (0, 2, 3, 7), (0, 2, 5, 7), (0, 3, 5, 7)}
    assert chisquare(list(seen.values())).pvalue > ALPHA


def test_bernoulli_tosses_every_available_client_alone():
    policy = POLICIES["bernoulli"](k=2, probability=0.3)
    view, rng = view_of("110110"), np.random.default_rng(0)
    seen = Counter(tuple(policy.select(view, 2, rng).ravel().tolist()) for _ in range(4000))
    expected = {}
    for mask in range(16):
        row = tuple(c for i, c in enumerate((0, 1, 3, 4)) if mask >> i & 1)
        expected[row] = 4000 * 0.3 ** len(row) * 0.7 ** (4 - len(row))
    assert set(seen) == set(expected) and () in seen
    assert chisquare([seen[row] for row in expected], list(expected.values())).pvalue > ALPHA


@pytest.mark.parametrize("mode", ["uniform", "fair", "least_total"])
def test_batches_of_k_are_the_partition(mode):
    """T = K: the same groups and, stream for stream, the same choice."""
    rng = np.random.default_rng(5)
    batch = POLICIES["batch_partition"](k=4, T=4, mode=mode)
    partition = POLICIES["partition"](k=4, mode=mode)
    for seed in range(200):
        view = View(0, rng.random(12) < 0.9, rng.integers(0, 3, 12))
        ours = (policy.select(view, 4, np.random.default_rng(seed)) for policy in (batch, partition))
        assert np.array_equal(*ours)


def test_batches_of_one_are_random_selection():
    """T = 1: the same family, and the uniform mode has the law of random selection."""
    view = view_of("11011111")
    assert law("batch_partition", 8, 3, 1, "uniform", view) == law("random", 8, 3, None, "uniform", view)
    check_law(POLICIES["batch_partition"](k=3, T=1, mode="uniform"), 8, 3, 1, view, 3000)


def test_pairs_spread_over_long_runs():
    """Two runs of one length and one of another, as C(L-j, j) says in whole numbers."""
    lengths, pairs = np.array([30, 41, 30]), 22
    ways = {
        (a, b, pairs - a - b): comb(30 - a, a) * comb(41 - b, b) * comb(30 - (pairs - a - b), pairs - a - b)
        for a in range(16)
        for b in range(21)
        if 0 <= pairs - a - b <= 15
    }
    draws, rng = 4000, np.random.default_rng(0)
    seen = Counter(tuple(draw_pairs([lengths], pairs, rng)[1].tolist()) for _ in range(draws))
    expected = {counts: draws * number / sum(ways.values()) for counts, number in ways.items()}
    common = [counts for counts in expected if expected[counts] >= 5]
    observed = [*(seen[counts] for counts in common), draws - sum(seen[counts] for counts in common)]
    assert len(common) > 30 and set(seen) <= set(ways)
    rest = draws - sum(expected[counts] for counts in common)
    assert chisquare(observed, [*(expected[counts] for counts in common), rest]).pvalue > ALPHA


def test_pairs_choose_between_alternatives():
    """(alternative, placement) is uniform, also where one alternative can hold hardly any more pairs."""
    alternatives = [np.array([5, 8, 0]), np.array([6, 7, 1])]
    ways = {
        (number, a, 5 - a): comb(lengths[0] - a, a) * comb(lengths[1] - (5 - a), 5 - a)
        for number, lengths in enumerate(alternatives)
        for a in range(1, lengths[0] // 2 + 1)
    }
    draws, rng = 3000, np.random.default_rng(1)
    seen = Counter()
    for _ in range(draws):
        number, counts = draw_pairs(alternatives, 5, rng)
        seen[(number, *counts[:2].tolist())] += 1
        assert counts[2] == 0
    assert all(ways[key] for key in seen)
    possible = [key for key, number in ways.items() if number]
    expected = np.array([ways[key] for key in possible], float)
    assert chisquare([seen[key] for key in possible], expected * draws / expected.sum()).pvalue > ALPHA


@pytest.mark.parametrize("mode", ["uniform", "fair", "least_total"])
@pytest.mark.parametrize("k", [1000, 200_000])
def test_half_partition_of_a_million_clients(mode, k):
    """Any number of units of a million clients, without a table of half-batches times units."""
    n, rng = 10**6, np.random.default_rng(0)
    view = View(0, rng.random(n) < 0.7, rng.integers(0, 50, n))
    units = POLICIES["half_partition"](k=k, T=2, mode=mode).select(view, k, rng)
    assert len(np.unique(units)) == k and view.available[units].all()
    assert np.array_equal(units[:, 1], (units[:, 0] + 1) % n)
