"""Multi-round privacy: published cases, properties, ill-conditioned and bad input, budgets."""

import itertools
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.sparse import csr_array, csr_matrix

from simfl.core.errors import SimflError
from simfl.core.prime_field import PRIMES, echelon, inverses, times
from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.base import COLUMNS, PRIVACY
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.multiround.matrix_metrics import MatrixAnalysis, multi_round, trace
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix
from simfl.privacy.multiround.witness import solve

HALF_6_4_2 = "111100 110110 110011 011110 011011 111001 001111 101101 100111"


def batch(n, k, unit):
    """All rows of k / unit of the n / unit batches."""
    rows = []
    for chosen in itertools.combinations(range(n // unit), k // unit):
        row = np.zeros(n)
        for b in chosen:
            row[b * unit : (b + 1) * unit] = 1
        rows.append(row)
    return np.array(rows)


def half(n, k, unit):
    """All rows of k / unit starts on the circle of half-batches, no two adjacent."""
    m, rows = 2 * n // unit, []
    for chosen in itertools.combinations(range(m), k // unit):
        if all((a + 1) % m not in chosen for a in chosen):
            row = np.zeros(n)
            for a in chosen:
                for h in (a, (a + 1) % m):
                    row[h * unit // 2 : (h + 1) * unit // 2] = 1
            rows.append(row)
    return np.array(rows)


def cohorts(n, k, rounds, seed):
    """k of n clients at random in every round."""
    rng = np.random.default_rng(seed)
    P = np.zeros((rounds, n))
    for row in P:
        row[rng.choice(n, k, replace=False)] = 1
    return P


@pytest.mark.parametrize(
    "P, expected",
    [
        (batch(6, 4, 2), (2, 2, 2)),
        (np.array([[int(c) for c in row] for row in HALF_6_4_2.split()]), (1, 2, 2)),
        (half(6, 4, 2), (1, 2, 2)),
        (half(12, 8, 4), (2, 4, 4)),
        (batch(12, 4, 4), (4, 4, 4)),
        (batch(12, 8, 4), (4, 4, 4)),
        (np.eye(5), (1, 1, 1)),
        (np.ones((3, 7)), (7, 7, 7)),
    ],
)
def test_published_cases(P, expected):
    found = multi_round(P)
    assert (found.strong, found.semi_strong, found.weak_lower, found.weak_upper) == (*expected, expected[2])
    assert found.weak_exact


def test_half_partition_list_is_the_family():
    listed = {tuple(int(c) for c in row) for row in HALF_6_4_2.split()}
    assert {tuple(int(x) for x in row) for row in half(6, 4, 2)} == listed


@pytest.mark.parametrize("P", [np.zeros((4, 3)), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((0, 0))])
def test_no_aggregate_gives_none(P):
    found = multi_round(P)
    assert found.rank == 0 and not found.weak_exact
    assert [found.strong, found.semi_strong, found.weak_lower, found.weak_upper] == [None] * 4
    assert found.semi_strong_witness is None and found.weak_witness is None
    assert all(np.isnan(column).all() and len(column) == len(P) for column in vars(trace(P)).values())


def test_the_definition_of_semi_strong_from_its_paper():
    """HP: for all t < T the t largest magnitudes sum to at most t / (T - t) times the rest."""
    P = half(8, 4, 2)
    T = multi_round(P).semi_strong
    rng = np.random.default_rng(0)
    for _ in range(300):
        v = np.sort(np.abs(rng.integers(-3, 4, len(P)) @ P))[::-1]
        if v[0] == 0:
            continue
        for t in range(1, int(np.ceil(T))):
            assert v[:t].sum() <= t / (T - t) * v[t:].sum() + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_invariances(seed):
    """Order of clients and rounds, scaling of a round, repeated and combined rounds change nothing."""
    rng = np.random.default_rng(seed)
    P = (rng.random((9, 14)) < 0.35).astype(float)
    P[0] = rng.integers(0, 2, 14) * 0.5
    found = multi_round(P)
    shown = (found.rank, found.strong, round(found.semi_strong, 9), found.weak_lower, found.weak_upper)
    for Q in (
        P[:, rng.permutation(14)],
        P[rng.permutation(9)],
        P * rng.choice([1.0, 0.5, 3.0], (9, 1)),
        np.vstack([P, P[:2] + P[2:4]]),
        csr_matrix(P),
        csr_array(np.hstack([P, np.zeros((9, 1))])),
    ):
        again = multi_round(Q)
        assert shown == (again.rank, again.strong, round(again.semi_strong, 9), again.weak_lower, again.weak_upper)


def test_blocks_take_the_minimum():
    """Clients that never meet: the row space is a direct sum, each guarantee the least of the parts."""
    a, b = half(6, 4, 2), batch(12, 4, 4)
    P = np.block([[a, np.zeros((len(a), 12))], [np.zeros((len(b), 6)), b]])
    found = multi_round(P)
    assert (found.strong, found.semi_strong, found.weak_lower, found.weak_upper) == (1, 2, 2, 2)


def test_weights_that_are_roundings_of_fractions():
    """(1/3, 1/9) and (1/2, 1/6) are parallel; taken as binary fractions they would isolate both clients."""
    found = multi_round(np.array([[1 / 3, 1 / 9], [1 / 2, 1 / 6], [0.3, 0.1]]))
    assert (found.rank, found.strong, found.weak_lower) == (1, 1, 2)
    assert found.semi_strong == pytest.approx(4 / 3)


def test_nearly_dependent_weights_are_exact():
    """Rows that differ by 2**-40: floating point alone would see rank 1."""
    e = 2.0**-40
    found = multi_round(np.array([[1, 1, 1.0], [1, 1 + e, 1 + 3 * e]]))
    assert (found.rank, found.strong, found.weak_lower, found.weak_upper) == (2, 1, 2, 2)
    # row 2 - row 1 = e (0, 1, 3); with row 1: (3, 2, 0), (1, 0, -2), (0, 1, 3) ... the best is (2, 1, -1) / 2
    assert found.semi_strong == pytest.approx(4 / 3, abs=1e-9)


def test_huge_and_tiny_weights():
    P = np.array([[1e200, 1e-200, 0], [0, 1e-300, 1e300]])
    found = multi_round(P, trust=True)
    assert (found.rank, found.weak_lower, found.weak_upper) == (2, 2, 2)
    found = multi_round(P)
    assert (found.sure, found.rank, found.weak_lower, found.weak_upper) == (False, None, 1, 2)


@pytest.mark.parametrize(
    "P, message",
    [
        ([[1, -1]], "round 0, client 1"),
        ([[1, 0], [0, np.nan]], "round 1, client 1"),
        ([[np.inf, 0]], "not a finite number"),
        ([1, 0], "two dimensions"),
        ([["a", "b"]], "real numbers"),
    ],
)
def test_bad_input(P, message):
    with pytest.raises(SimflError, match=message):
        multi_round(np.array(P))


@pytest.mark.parametrize("policy, unit", [("batch", 2), ("batch", 3), ("batch", 4), ("batch", 6), ("half", 4)])
def test_structured_cohorts_are_exact_all_the_way(policy, unit):
    """200 rounds, N = 120, K = 12: guarantees fall from 12 to the unit and never below."""
    rng = np.random.default_rng(unit)
    P = np.zeros((200, 120))
    for row in P:
        if policy == "batch":
            starts, width = rng.choice(120 // unit, 12 // unit, replace=False), unit
            for s in starts:
                row[s * width : (s + 1) * width] = 1
        else:
            m, k = 240 // unit, 12 // unit
            gaps = np.sort(rng.choice(m - k - 1, k - 1, replace=False)) + np.arange(k - 1) + 2
            starts = (np.append(0, gaps) + rng.integers(m)) % m
            for h in np.append(starts, (starts + 1) % m):
                row[h * unit // 2 : (h + 1) * unit // 2] = 1
    columns = trace(P)
    assert columns.weak_upper[0] == columns.semi_strong[0] == 12
    assert columns.weak_upper[-1] == columns.weak_lower[-1] == columns.semi_strong[-1] == unit
    assert columns.strong[-1] == (unit if policy == "batch" else unit // 2)
    if policy == "batch" and unit > 2:
        assert (columns.weak_lower == columns.weak_upper).all()
    assert (columns.strong <= columns.semi_strong).all() and (columns.semi_strong <= columns.weak_upper).all()
    for column in vars(columns).values():
        assert (np.diff(column) <= 0).all() or (np.diff(column) >= 0).all()


def test_random_cohorts_keep_twelve_until_round_109():
    """MR Fig. 3: with random selection the least support stays 12, then falls to 1 as P gets full column rank."""
    columns = trace(cohorts(120, 12, 130, seed=5))
    full = int(np.flatnonzero(columns.rank == 120)[0])
    assert 119 <= full <= 124
    assert (columns.weak_upper[:105] == 12).all()
    assert (columns.weak_lower[full:] == 1).all() and (columns.weak_upper[full:] == 1).all()
    assert (columns.semi_strong[full:] == 1).all()
    # a code of length 120 and dimension r has a word of weight at most 121 - r
    ranked = ~np.isnan(columns.rank)
    assert (columns.weak_upper[ranked] <= 121 - columns.rank[ranked]).all()
    # exact wherever at most five clients are left, and never claimed below six before
    exact = columns.weak_upper <= 6
    assert (columns.weak_lower[exact] == columns.weak_upper[exact]).all()
    assert (columns.weak_lower[~exact] >= 6).all()


def test_cadence():
    P = cohorts(10, 4, 11, seed=1)
    whole, some, end = trace(P), trace(P, every=4), trace(P, every=0)
    due = [3, 7, 10]
    assert np.flatnonzero(~np.isnan(some.semi_strong)).tolist() == due
    assert np.flatnonzero(~np.isnan(end.weak_lower)).tolist() == [10]
    for name in ("semi_strong", "weak_lower", "weak_upper"):
        assert getattr(some, name)[due] == pytest.approx(getattr(whole, name)[due])
        assert getattr(end, name)[10] == pytest.approx(getattr(whole, name)[10])
    for columns in (some, end):
        assert np.array_equal(columns.strong, whole.strong) and np.array_equal(columns.rank, whole.rank)


@pytest.mark.parametrize("budget", [0, 10**4, 10**6, 10**7])
def test_small_budgets_give_wider_but_true_answers(budget):
    P = cohorts(24, 6, 20, seed=3)
    truth, found = multi_round(P), multi_round(P, budget=budget)
    assert truth.weak_exact
    assert found.strong == truth.strong
    assert found.weak_lower <= truth.weak_lower <= found.weak_upper
    assert found.rank in (None, truth.rank)
    assert found.semi_strong is None or found.semi_strong == pytest.approx(truth.semi_strong, abs=1e-7)
    assert found.semi_strong_bound <= truth.semi_strong + 1e-7
    columns = trace(P, budget=budget)
    assert (columns.weak_lower <= trace(P).weak_upper).all()
    assert (np.diff(columns.weak_upper) <= 0).all()


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_lower_bounds_of_the_semi_strong_guarantee_are_the_value_or_below_it(every, weighted):
    bounded = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        P = cohorts(14, 4, 16, seed=seed)
        P = P * rng.choice([1.0, 2.0, 3.0], P.shape) if weighted else P
        exact = trace(P, every).semi_strong
        assert not np.isnan(exact[-1])
        for budget in (0, 2000, 20000, 200000):
            columns = trace(P, every, budget=budget)
            lower, value = columns.semi_strong_lower, columns.semi_strong
            assert (np.isnan(lower) == np.isnan(exact)).all()
            due = ~np.isnan(exact)
            assert (lower[due] <= exact[due]).all() and (np.diff(lower[due]) <= 0).all()
            assert np.array_equal(lower[~np.isnan(value)], value[~np.isnan(value)])
            bounded += int((due & np.isnan(value)).sum())
    assert bounded > 20


def test_plugins_write_the_columns():
    adapter = TypeAdapter(Annotated[Any, PRIVACY])
    history = History({SERVER: ObserverView.of_sums(csr_matrix(np.vstack([np.zeros((1, 6)), batch(6, 4, 2)])))})
    names = [column.name for column in COLUMNS]
    columns = adapter.validate_json('{"every": 1}').accounts(history)
    assert list(columns) == names
    assert [columns[c][0] for c in names] == [None] * 4
    assert [columns[c][-1] for c in names] == [2, 2.0, 2, 2]
    assert all(isinstance(v, int) for v in columns["privacy_strong"][1:])
    assert adapter.validate_json('"none"').accounts(history) == {}
    last = adapter.validate_json('{"name": "multi_round", "every": 0}').accounts(history)
    assert last["privacy_weak_lower"] == [None, None, None, 2]


def test_clients_that_aggregate_know_their_own_part():
    """Client 0 sums all three, client 1 itself and 2: against 1 nobody hides, against 0 two hide behind one another."""
    sums = {0: csr_matrix([[1, 1, 1], [0, 0, 0]]), 1: csr_matrix([[0, 0, 0], [0, 1, 1]])}
    columns = (
        TypeAdapter(Annotated[Any, PRIVACY])
        .validate_json('{"every": 1}')
        .accounts(History({who: ObserverView.of_sums(P) for who, P in sums.items()}))
    )
    assert columns["privacy_strong"] == [2, 1] and columns["privacy_weak_upper"] == [2, 1]


def test_same_answer_in_every_process_state():
    """No global random state: disturbing it moves nothing."""
    P = cohorts(40, 8, 30, seed=2)
    first = trace(P)
    np.random.seed(7)  # noqa: NPY002
    again = trace(P)
    assert all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(vars(first).values(), vars(again).values(), strict=True)
    )


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PRIMES)
def test_primes(p):
    assert p < 2**32 and all(p % d for d in range(2, 2**16))


def test_field_inverse_and_echelon():
    rng = np.random.default_rng(0)
    p = PRIMES[0]
    for n in (0, 1, 7, 8, 9, 63, 1000):
        x = rng.integers(0, p, n, dtype=np.uint64)
        x[n // 2 : n // 2 + 1] = 0
        y = inverses(x, p)
        assert [int(a) * int(b) % p for a, b in zip(x, y, strict=True)] == [int(a != 0) for a in x]
    a = rng.integers(0, p, (5, 9), dtype=np.uint64)
    a[4] = (a[0].astype(object) * 7 + a[1].astype(object) * (p - 3)) % p
    form, pivots = echelon(a, p)
    assert pivots.tolist() == [0, 1, 2, 3]
    assert np.array_equal(form[:, pivots], np.eye(4, dtype=np.uint64))
    for row in a.astype(object):
        assert np.array_equal(row, sum(int(row[c]) * form[i].astype(object) for i, c in enumerate(pivots)) % p)
    big = np.full(3, p - 1, dtype=np.uint64)
    assert times(big, big, p).tolist() == [1, 1, 1]


def test_rational_solution_is_exact():
    rng = np.random.default_rng(1)
    for scale in (2, 10, 10**18):
        a = np.array([[int(v) for v in row] for row in rng.integers(-scale, scale + 1, (7, 7))], dtype=object)
        b = np.array([[int(v)] for v in rng.integers(-5, 6, 7)], dtype=object)
        x = solve(a, b, PRIMES[0])[0]
        assert all(sum(int(a[i, j]) * x[j] for j in range(7)) == int(b[i, 0]) for i in range(7))
    singular = np.array([[1, 2], [2, 4]], dtype=object)
    assert solve(singular, np.array([[1], [1]], dtype=object), PRIMES[0]) is None


def test_values_are_read_as_simple_fractions():
    x = np.array([0.1, 1 / 3, 0.5, 12.0, 1 / (1 + 7), 600 / 7213, np.pi, 2.0**-60, 1e300])
    values, codes = ParticipationMatrix.of(x[None]).values, ParticipationMatrix.of(x[None]).codes
    assert values.sure[codes].tolist() == [True] * 6 + [False, True, False]  # not pi; not 1e300 to the last bit
    read = [values.fraction(c) for c in codes]
    simple = [Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), 12, Fraction(1, 8), Fraction(600, 7213)]
    assert read == [*simple, *(Fraction(float(v)) for v in x[6:])]
    for p in PRIMES:
        assert [int(r) for r in values.residues(p)[codes]] == [
            f.numerator * pow(f.denominator, -1, p) % p for f in map(Fraction, read)
        ]


def test_isolated_clients_are_found_at_their_rank():
    rng = np.random.default_rng(4)
    for _ in range(20):
        P = (rng.random((10, 7)) < 0.4).astype(float)
        basis = MatrixAnalysis.of(P).basis
        for c, rank in enumerate(basis.isolated):
            member = basis.classes.label == c
            for r, t in enumerate(basis.rounds, start=1):
                inside = np.linalg.matrix_rank(np.vstack([P[: t + 1], member])) == np.linalg.matrix_rank(P[: t + 1])
                assert inside == (0 < rank <= r)
