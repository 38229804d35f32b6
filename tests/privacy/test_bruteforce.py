"""All three guarantees against brute force in exact fractions, written independently of simfl.privacy."""

from fractions import Fraction

import numpy as np
import pytest

from simfl.privacy.multiround.matrix_metrics import multi_round, trace
from tests.support.privacy_brute import exact, rank, semi_strong, strong, weak


def semi_strong_lp(P):
    """The same by scipy, in the form min 1'u, -u <= P'z <= u, (P'z)_i = 1."""
    from scipy.optimize import linprog

    J, n = P.shape
    best = np.inf
    for i in np.flatnonzero(P.any(axis=0)):
        above = np.block([[P.T, -np.eye(n)], [-P.T, -np.eye(n)]])
        found = linprog(
            np.r_[np.zeros(J), np.ones(n)],
            A_ub=above,
            b_ub=np.zeros(2 * n),
            A_eq=np.r_[P[:, i], np.zeros(n)][None],
            b_eq=[1.0],
            bounds=[(None, None)] * J + [(0, None)] * n,
            method="highs",
        )
        best = min(best, found.fun)
    return best


def irregular(rng, shape):
    """Random numbers; a few are by chance so close to a simple fraction that they would be read as it: drawn anew."""
    x = rng.random(shape)
    for place in np.ndindex(shape):
        while abs(float(Fraction(x[place]).limit_denominator(2**20)) - x[place]) <= 8 * np.spacing(x[place]):
            x[place] = rng.random()
    return x


def random_matrix(rng, n_max):
    """0/1 or weighted, sparse or dense, with repeated rows, sums of rows, repeated and proportional columns."""
    n, J = int(rng.integers(1, n_max + 1)), int(rng.integers(1, 10))
    P = (rng.random((J, n)) < rng.uniform(0.15, 0.85)).astype(float)
    kind = rng.integers(4)
    if kind == 1:
        P *= irregular(rng, P.shape)
    elif kind == 2:
        P *= rng.choice([1.0, 0.5, 0.25, 0.75, 3.0], P.shape)
    elif kind == 3:
        P *= rng.choice([1.0, 0.5, 2.0], n)
    if J > 2 and rng.random() < 0.4:
        P[-1] = P[0] + P[1]
    if n > 2 and rng.random() < 0.5:
        P[:, rng.integers(n)] = P[:, rng.integers(n)]
    return P


def check_witness(P, witness):
    """The combination of rounds gives the vector, exactly."""
    rows = exact(P)
    v = [sum((z * rows[t][i] for t, z in witness.coefficients.items()), Fraction(0)) for i in range(P.shape[1])]
    assert {i: x for i, x in enumerate(v) if x} == witness.values
    if np.abs(witness.combination).max() < 1e6:
        assert np.allclose(witness.combination @ P, witness.vector, atol=1e-9)


def equals_brute_force(P):
    """All three guarantees, their bounds and witnesses, and those of every prefix of the rounds."""
    found = multi_round(P, trust=True)
    assert found.rank == rank(exact(P))
    assert found.strong == strong(exact(P))
    least = weak(exact(P))
    assert (found.weak_lower, found.weak_upper, found.weak_exact) == (least, least, True)
    expected = semi_strong(exact(P)) if found.rank <= 5 or P.shape[1] <= 9 else semi_strong_lp(P)
    if expected > found.semi_strong + 1e-7:  # rounds that almost add up to others are beyond a solver in doubles
        expected = semi_strong(exact(P))
    assert found.semi_strong == pytest.approx(float(expected), abs=1e-7)
    assert found.semi_strong - 1e-7 <= found.semi_strong_bound <= found.semi_strong
    assert found.strong <= found.semi_strong <= found.weak_lower
    check_witness(P, found.semi_strong_witness)
    assert found.semi_strong_witness.ratio == pytest.approx(found.semi_strong, rel=1e-12)
    check_witness(P, found.weak_witness)
    assert len(found.weak_witness.values) == found.weak_upper
    _check_trace(P)


MATRICES = 200


@pytest.mark.parametrize("part", range(4))
def test_all_three_equal_brute_force(part):
    rng = np.random.default_rng(100 + part)
    tried = 0
    while tried < MATRICES // 4:
        P = random_matrix(rng, 12 if tried % 5 == 0 else 8)
        if not P.any():
            continue
        tried += 1
        equals_brute_force(P)


def _check_trace(P):
    columns = trace(P, trust=True)
    last = np.full(5, np.inf)
    for t in range(len(P)):
        row = np.array([c[t] for c in (columns.strong, columns.semi_strong, columns.weak_lower, columns.weak_upper)])
        if not P[: t + 1].any():
            assert np.isnan(row).all() and np.isnan(columns.rank[t])
            continue
        at = multi_round(P[: t + 1], trust=True)
        assert columns.rank[t] == at.rank
        assert row == pytest.approx([at.strong, at.semi_strong, at.weak_lower, at.weak_upper], abs=1e-7)
        assert (row <= last[:4]).all(), "no metric ever rises"
        last[:4] = row
