"""The mode least_total: the row is the cheapest one, whatever the shape of the family, and ties are random."""

from collections import Counter

import numpy as np
import pytest

from simfl.core.types import View
from simfl.selection.base import POLICIES
from simfl.selection.units.circle import cheapest_starts
from tests.support.selection_brute import least_total


@pytest.mark.parametrize(
    ("name", "n", "k", "t"),
    [
        ("weighted", 10, 4, None),
        ("partition", 12, 3, None),
        ("batch_partition", 12, 6, 2),
        ("batch_partition", 12, 2, 2),
        ("half_partition", 12, 6, 2),
        ("half_partition", 12, 12, 2),
        ("half_partition", 12, 2, 2),
        ("half_partition", 24, 12, 4),
        ("half_partition", 14, 8, 2),
    ],
)
def test_takes_a_cheapest_row(name, n, k, t):
    sizes = {"k": k} | ({"T": t} if t else {}) | ({} if name == "weighted" else {"mode": "least_total"})
    policy = POLICIES[name](**sizes)
    rng = np.random.default_rng(n * k)
    found = 0
    for high in [2, 4, 100] * 50:
        view = View(0, rng.random(n) < rng.choice([0.8, 0.95, 1.0]), rng.integers(0, high, n))
        best = least_total(name, n, k, t, view)
        chosen = tuple(np.sort(policy.select(view, k, rng), axis=None).tolist())
        assert chosen in best if best else chosen == ()
        found += bool(best)
    assert found > 20


@pytest.mark.parametrize("name", ["batch_partition", "half_partition"])
def test_every_cheapest_row_comes_up(name):
    """Ties are random: each of the cheapest rows is taken now and then."""
    policy = POLICIES[name](k=4, T=2, mode="least_total")
    view = View(0, np.ones(10, bool), np.array([1, 0, 1, 0, 0, 1, 2, 0, 1, 1]))
    rng = np.random.default_rng(0)
    seen = Counter(tuple(np.sort(policy.select(view, 4, rng), axis=None).tolist()) for _ in range(600))
    best = least_total(name, 10, 4, 2, view)
    assert len(best) > 2 and set(seen) == best
    assert min(seen.values()) > 600 / len(best) / 4


def test_cheapest_starts_against_a_programme_over_the_circle():
    """On circles too large to enumerate, against dynamic programming: first start taken or not, then along the line."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        m = int(rng.integers(2, 40)) * 2
        possible, cost = rng.random(m) < rng.choice([0.7, 1.0]), rng.integers(0, rng.choice([3, 1000]), m)
        table = _cheapest(possible, cost)
        feasible = [j for j in range(1, m // 2 + 1) if table[j] < np.inf]
        for need in feasible[:3] + feasible[-3:]:
            chosen = cheapest_starts(possible, cost, need, rng)
            apart = np.diff(np.append(chosen, chosen[0] + m))
            assert len(chosen) == need and possible[chosen].all() and (apart >= 2).all()
            assert cost[chosen].sum() == table[need]


def _cheapest(possible, cost):
    """Least cost of j non-adjacent possible starts on the circle, for every j."""
    m = len(cost)

    def line(low, high):
        taken, free = np.full(m, np.inf), np.full(m, np.inf)
        free[0] = 0.0
        for i in range(low, high):
            take = np.append(np.inf, free[:-1] + cost[i]) if possible[i] else np.full(m, np.inf)
            free = np.minimum(free, taken)
            taken = take
        return np.minimum(free, taken)

    with_first = np.append(np.inf, line(2, m - 1)[:-1] + cost[0]) if possible[0] else np.full(m, np.inf)
    return np.minimum(line(1, m), with_first)
