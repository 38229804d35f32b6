"""Guarded selection in random runs, judged by exhaustion and by scipy's programmes, which know of no certificates.

In each run other clients are away in every round, fail before their upload (their unit leaves, or they alone), hold no
samples, or take the whole round down in a later phase; the process is killed now and then, so that another policy
object goes on from the rows alone.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from simfl.core.types import View
from simfl.selection.asking import ask
from simfl.selection.base import POLICIES
from tests.support import privacy_brute
from tests.support.sizes import repeats

SMALL = [(n, k, T, reserve) for n in range(4, 11) for T in (2, 3, 4) for k in range(T, n, T)
         for reserve in ("batch", "half") if n % T == 0 and (reserve == "batch" or T % 2 == 0)]  # fmt: skip
LARGE = [(16, 8, 4, "batch"), (18, 6, 3, "batch"), (20, 10, 5, "batch"), (24, 12, 6, "half"), (24, 8, 4, "batch")]
ROUNDS = 25


def proposer(n, k, rng):
    """A policy that proposes sets, of single clients or in units of its own, of as many as asked for or any number."""
    kinds = [{"name": "random"}, {"name": "weighted"}, {"name": "bernoulli", "probability": 0.6}]
    if k % 2 == n % 2 == 0:
        kinds.append({"name": "batch_partition", "T": 2, "mode": "least_total"})
    return {**kinds[rng.integers(len(kinds))], "k": k}


def random_run(size, notion, seed):
    """The policy of a random run, and the rows of the sums that were opened."""
    rng = np.random.default_rng(seed)
    n, k, T, reserve = size
    inner = proposer(n, k, rng)
    config = {"name": "guarded", "inner": inner, "T": T, "notion": notion, "reserve": reserve}
    config |= {"mode": rng.choice(["uniform", "fair", "least_total"]).item(), "tries": int(rng.integers(1, 4))}
    away, failing = rng.uniform(0.1, 0.6), rng.choice([0.0, 0.05, 0.2])
    poor = rng.random(n) < rng.choice([0.0, 0.1])
    whole_units, policy = rng.random() < 0.5, POLICIES.of(config)
    rows, participation = [], np.zeros(n, dtype=np.int64)
    for t in range(ROUNDS):
        if rng.random() < 0.1:
            policy = POLICIES.of(config)
        view = View(t, rng.random(n) >= away, participation.copy(), history=tuple(rows))
        units, fails = ask(policy, view, k, rng), rng.random(n) < failing
        arrived = units[~fails[units].any(axis=1)].ravel() if whole_units else units[~fails[units]]
        row = np.sort(arrived[~poor[arrived]]).astype(np.int32)
        if policy.admits(view, row) and row.size and rng.random() >= failing:
            rows.append(row)
            participation[row] += 1
    return policy, rows


def everything(policy, rows, n):
    """The rows and the units of the whole reserve as a matrix of zeros and ones, without rows that come twice."""
    P = np.zeros((len(rows), n), dtype=np.int64)
    for line, clients in zip(P, rows, strict=True):
        line[clients] = 1
    reserve = np.zeros((0, n), dtype=np.int64)
    for unit in policy.reserved.family(n).units():
        reserve = np.vstack([reserve, np.isin(np.arange(n), unit).astype(np.int64)])
    return np.unique(np.vstack([P, reserve]), axis=0), len(reserve)


def least_by_programme(P):
    """min over i of min { |v|_1 : v in the span of P, v_i = 1 }: scipy's, its vertex computed again in fractions."""
    rows = privacy_brute.eliminate(privacy_brute.exact(P))[0]
    basis = np.array(rows, dtype=float)
    r, n = basis.shape
    costs, least = np.r_[np.zeros(r), np.ones(n)], None
    within = np.block([[basis.T, -np.eye(n)], [-basis.T, -np.eye(n)]])
    for i in range(n):
        if not basis[:, i].any():
            continue
        equal = np.r_[basis[:, i], np.zeros(n)][None]
        found = linprog(costs, within, np.zeros(2 * n), equal, [1.0], [(None, None)] * r + [(0, None)] * n)
        assert found.status == 0
        exact = exact_value(rows, basis.T @ found.x[:r], i)
        assert abs(float(exact) - found.fun) < 1e-6
        least = exact if least is None else min(least, exact)
    return least


def exact_value(rows, v, i):
    """|v|_1 / |v_i| of the one vector of the span with the zeros of v, in fractions."""
    zeros = np.flatnonzero(np.abs(v) < 1e-7)
    (combination,) = privacy_brute.null_space([[row[j] for row in rows] for j in zeros], len(rows))
    exact = [sum((c * row[j] for c, row in zip(combination, rows, strict=True)), Fraction(0)) for j in range(len(v))]
    return sum(map(abs, exact)) / abs(exact[i])


def judge_small(notion, seed):
    """Whether a random run of ten clients or fewer kept its notion, by exhaustion, and its rank above the reserve's."""
    size = SMALL[seed % len(SMALL)]
    policy, rows = random_run(size, notion, seed)
    P, _ = everything(policy, rows, size[0])
    exact = privacy_brute.exact(P)
    least = privacy_brute.semi_strong(exact) if notion == "semi_strong" else privacy_brute.weak(exact)
    assert least >= size[2], (size, notion, seed)
    return privacy_brute.rank(exact) > privacy_brute.rank(privacy_brute.exact(everything(policy, [], size[0])[0]))


def judge_large(seed):
    """The same of more clients, by programmes."""
    size = LARGE[seed % len(LARGE)]
    policy, rows = random_run(size, "semi_strong", seed)
    P, units = everything(policy, rows, size[0])
    assert least_by_programme(P) >= size[2], (size, seed)
    return len(P) > units


@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
def test_a_few_random_runs_keep_the_notion_by_exhaustion(notion):
    """In a good part of them rows are opened that are none of the reserve's: else nothing would be tested."""
    runs = repeats(20, 50)
    assert sum(judge_small(notion, seed) for seed in range(runs)) > runs / 5


def test_a_few_larger_random_runs_keep_the_notion_by_programmes():
    assert sum(judge_large(seed) for seed in range(5)) >= 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
def test_thousands_of_random_runs_keep_the_notion_by_exhaustion(notion):
    assert sum(judge_small(notion, seed) for seed in range(1000, 4000)) > 600


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_hundreds_of_larger_random_runs_keep_the_notion_by_programmes():
    assert sum(judge_large(seed) for seed in range(100, 500)) > 200
