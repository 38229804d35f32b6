"""No number says more than is known: many kinds of matrices against exhaustion in fractions; how numbers are read."""

from fractions import Fraction
from math import gcd

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.core.prime_field import PRIMES
from simfl.deployment.audit import audit
from simfl.privacy.multiround.matrix_metrics import multi_round, trace
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, with_samples
from simfl.privacy.multiround.roots import primes
from tests.support.privacy_brute import isolated, rank, semi_strong, strong, weak
from tests.support.privacy_kinds import KINDS, SURE

TRIALS = 8


def holds(P, truth, name=""):
    """Checks everything that is claimed about P; whether the weights were read for sure, or may be percentages."""
    found = multi_round(P)
    least = weak(truth)
    assert found.weak_lower <= least <= found.weak_upper
    assert found.rank in (None, rank(truth))
    if found.semi_strong is not None:
        assert found.semi_strong == pytest.approx(float(semi_strong(truth)), abs=1e-6)
    assert found.semi_strong_bound <= semi_strong(truth) + Fraction(1, 10**6)
    if found.sure:
        assert found.rank is not None and found.weak_exact and found.strong == strong(truth)
    for witness in (found.weak_witness, found.semi_strong_witness):
        if witness is not None and not {"unsure", "rough"} & set(found.read):
            v = [sum(z * truth[t][i] for t, z in witness.coefficients.items()) for i in range(len(truth[0]))]
            assert all(abs(x - witness.values.get(i, 0)) < Fraction(1, 10**100) for i, x in enumerate(v))
    columns = trace(P)
    assert columns.weak_lower[-1] <= least <= columns.weak_upper[-1]
    for t in range(len(truth)):
        value = columns.rank[t]
        assert np.isnan(value) or value == rank(truth[: t + 1])
    return found.sure or "percent" in found.read


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_claimed_that_is_not_so(name):
    rng = np.random.default_rng(2026)
    sure = 0
    for _ in range(TRIALS):
        P, truth = KINDS[name](rng)
        if np.any(P):
            certain = holds(P, truth)
            sure += certain
            assert certain or name not in SURE


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_claimed_that_is_not_so_of_many(name):
    rng = np.random.default_rng(42)
    for _ in range(400):
        P, truth = KINDS[name](rng)
        if np.any(P):
            assert holds(P, truth) or name not in SURE


@pytest.mark.parametrize("name", ["prime_collisions", "reals", "dependent_reals", "square_roots", "decimals"])
def test_who_is_exposed_is_exposed(name):
    rng = np.random.default_rng(5)
    for _ in range(TRIALS):
        P, truth = KINDS[name](rng)
        if np.any(P):
            report = audit(P)
            for exposure in report.exposed:
                assert isolated(truth[: exposure.round + 1], exposure.client)
            if not report.doubtful:
                found = {exposure.client for exposure in report.exposed}
                assert found == {i for i in range(P.shape[1]) if isolated(truth, i)}


# -- the cases that were wrong --------------------------------------------------------------------


def test_samples_over_the_rounds_samples():
    n = np.array([232279, 880877, 414301, 862849, 588130, 620927])
    P = np.zeros((3, 6))
    for row, members in zip(P, ([0, 1, 2, 3], [0, 1, 4, 5], [2, 3, 4, 5]), strict=True):
        row[members] = n[members] / n[members].sum()
    found = multi_round(P)
    assert (found.weak_lower, found.weak_upper, found.rank, found.read) == (2, 2, 3, {"shared": 12})


@pytest.mark.parametrize(
    "P",
    [
        np.array([[1 / 3, 1 / 9], [1 / 2, 1 / 6]], dtype=np.float32),
        np.array([[1 / 3, 1 / 9], [1 / 2, 1 / 6]], dtype=np.float32).astype(float),
        np.array([[0.333333, 0.111111], [0.5, 0.166667]]),
    ],
    ids=["float32", "float32 as double", "six digits"],
)
def test_fractions_in_few_digits(P):
    found = multi_round(P)
    assert (found.rank, found.weak_lower, found.weak_upper, found.sure) == (1, 2, 2, True)
    assert not audit(P).exposed


def test_large_dyadic_numbers():
    P = np.array([[1, 1, 16384], [1, 2, 0.12899112701416016], [2, 3, 16384.128991127014]])
    found = multi_round(P)
    assert (found.rank, found.weak_lower, found.weak_upper, found.sure) == (2, 2, 2, True)


@pytest.mark.parametrize("copies", [1, 3])
def test_a_vector_that_a_prime_makes_lighter(copies):
    """Modulo the first prime a column falls in with others, and a vector of two columns looks like one of one column;
    that one is no vector of R, but nothing heavier than it is excluded thereby."""
    p, q = PRIMES[:2]
    P = np.repeat(np.array([[1.0, 2.0, 2.0, 2.0, 0.0], [2.0, 4.0, 4.0, p + 4.0, q]]), copies, axis=1)
    found = multi_round(P)
    assert (found.weak_lower, found.weak_upper) == (2 * copies, 2 * copies)
    columns = trace(P)
    assert (columns.weak_lower[-1], columns.weak_upper[-1]) == (2 * copies, 2 * copies)


def test_a_matrix_that_meets_a_prime():
    found = multi_round(np.array([[1, 1, 1, 1], [1, 2, 3, 4], [4294967292, 4294967292, 1, 1]]))
    assert (found.rank, found.weak_lower, found.weak_upper) == (3, 2, 2)
    p, q = PRIMES[:2]
    both = np.array([[p + 1, 1], [p + q + 1, q + 1]])  # determinant p q
    assert (multi_round(both).rank, len(audit(both).exposed)) == (2, 2)


def test_square_roots_obey_their_relations():
    found = multi_round(np.array([[1, 2**-0.5, 1, 0], [2**-0.5, 0.5, 0, 1]]))
    assert (found.rank, found.weak_lower, found.weak_upper, found.sure) == (2, 2, 2, True)
    assert multi_round(np.sqrt([[2, 3], [4, 6]])).rank == 1


def test_numbers_that_may_be_rounded_leave_an_interval():
    rng = np.random.default_rng(0)
    P = np.vstack([np.ones(5), rng.random((2, 5)), np.full(5, 0.123456789012345)])
    found = multi_round(P)
    assert (found.sure, found.rank, found.weak_lower, found.weak_upper) == (False, None, 1, 5)
    assert found.read == {"whole": 5, "unsure": 15}
    taken = multi_round(P, trust=True)
    assert (taken.rank, taken.weak_lower, taken.weak_upper) == (3, 3, 3)
    columns = trace(P)
    assert columns.rank[0] == 1 and np.isnan(columns.rank[1:]).all() and columns.weak_lower[0] == 5
    assert ParticipationMatrix.of(P).sure.tolist() == [
        True,
        False,
        False,
        True,
    ]  # one weight for all only scales the round


# -- how numbers are read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights, kinds",
    [
        ([1, 600, 123456789], {"whole": 3}),
        ([0.5, 1 / 3, 1e-3], {"fraction": 3}),
        ([1.0000001192092896, 3.0], {"whole": 1, "as written": 1}),
        ([2**0.5, 3**-0.5, 5**0.3, 8 ** (1 / 3) * 7**0.25], {"root": 4}),
        ([np.pi, np.e], {"unsure": 2}),
        ([0.1, 0.3, 1], {"rough": 3}),
        ([0.3], {"rough": 1}),
        ([0.5, 0.2], {"rough": 2}),
        ([0.25, 0.3], {"rough": 2}),
        ([0.25, 0.3, 0.2], {"as written": 3}),
        ([0.125, 0.3], {"as written": 2}),
        ([0.25, 0.5, 0.75], {"fraction": 3}),
        ([33, 33, 34], {"percent": 3}),
        ([33, 33, 33], {"whole": 3}),
        ([40, 61], {"percent": 2}),
        ([40, 62], {"whole": 2}),
        ([0.12, 0.3], {"rough": 2}),
        ([0.5, 0.25, 0.2], {"as written": 3}),
        ([0.5, 0.25, 0.2, 1 / 3], {"fraction": 4}),
        ([0.5, 0.25, 0.2, 0.33], {"rough": 4}),
        ([0.05, 0.25], {"rough": 2}),
        ([0.271828, 0.314159], {"unsure": 2}),
        ([0.142857, 0.076923], {"fraction": 2}),
        ([2 / 7, 3 / 7, np.nextafter(2 / 7, 1)], {"fraction": 3}),
    ],
)
def test_kinds_of_numbers(weights, kinds):
    rounds = ParticipationMatrix.of(np.array([weights]))
    if "as written" in kinds and 3.0 in weights:  # 1 + 2^-23 alone looks like single precision
        rounds = ParticipationMatrix.of(np.array([[*weights, 1 / 3]]))
        kinds = kinds | {"fraction": 1}
    assert rounds.values.kinds(rounds.codes) == kinds


def test_weights_of_few_digits_are_read_as_they_are_or_not_at_all():
    """M8: .5, .25, .2 were unsure beside each other and read exactly beside 1/3. Later .3 and .2 were sure alone.

    Logs of fractions with denominators up to 9, written with one to four decimals: where the audit is sure of all
    weights it has read those that were meant, and of those that lost nothing by being written it is sure, if all are
    binary numbers or enough of them could have had more digits.
    """
    rng, kept, lost = np.random.default_rng(3), 0, 0
    for _ in range(1500):
        bottom = rng.integers(1, 10, 4) if rng.random() < 0.5 else rng.choice([1, 2, 4, 5, 8], 4)
        meant = [Fraction(int(rng.integers(1, d + 1)), int(d)) for d in bottom]
        decimals = int(rng.integers(1, 5))
        written = np.array([[float(f"{float(weight):.{decimals}f}") for weight in meant]])
        if not written.all():
            continue
        rounds = ParticipationMatrix.of(written)
        exact = all(Fraction(str(number)) == weight for number, weight in zip(written[0].tolist(), meant, strict=True))
        sure = bool(rounds.values.sure[rounds.codes].all())
        assert not sure or [rounds.values.fraction(code) for code in rounds.codes] == meant, (written, meant)
        broken = {weight for weight in meant if weight.denominator > 1}
        longest = max((len(str(float(weight))) - 2 for weight in broken), default=0)
        binary = all(weight.denominator in (1, 2, 4, 8) for weight in meant)
        if binary or longest > 2 or (longest == 2 and len(broken) > 2):
            assert sure >= exact, (written, meant)
            kept += exact
        lost += not sure
    assert kept > 200 and lost > 200


@pytest.mark.parametrize("digits", [0, 1, 2, 3])
def test_shares_of_samples_of_few_digits_stay_unsure(digits):
    """n_i / sum(n), rounded: hardly ever are all of them so simple that they pass for what they are; the fewer digits
    the less. Without a digit they are percentages."""
    rng = np.random.default_rng(4)
    sure = 0
    for _ in range(300):
        n = rng.integers(20, 400, (3, 6))
        shares = n / n.sum(axis=1, keepdims=True)
        rounds = ParticipationMatrix.of(np.round(shares, digits) if digits else np.round(100 * shares))
        sure += bool(rounds.values.sure[rounds.codes].all())
    assert not sure if digits < 3 else sure <= 1


def rounded_to(written):
    """Some fractions that are written as this whole number."""
    return [Fraction(20 * written + i, 20) for i in range(-9, 10)]


@pytest.mark.parametrize("weights, unit", [([[3, 3], [3, 3]], 0.1), ([[2, 5], [5, 2]], 0.1), ([[33, 67], [67, 33]], 1)])
def test_what_is_said_of_few_digits_holds_for_all_numbers_that_are_written_like_that(weights, unit):
    """0.3 beside 0.3 may be 0.26 beside 0.34, and 33 beside 67 percent 32.6 beside 67.4."""
    found = multi_round(np.round(np.array(weights) * unit, 1))
    ranks = set()
    rng = np.random.default_rng(0)
    for _ in range(200):
        truth = [[rng.choice(rounded_to(w)) for w in row] for row in weights]
        ranks.add(rank(truth))
        assert found.weak_lower <= weak(truth) <= found.weak_upper and found.strong <= strong(truth)
        assert found.semi_strong_bound <= semi_strong(truth) + Fraction(1, 10**6)
    assert not found.sure and found.rank is None and ranks == {2}


def test_whole_numbers_are_percentages_only_if_every_round_adds_up_to_100():
    """Logs of rounded percentages of many clients are noticed; samples of rounds of about 100 are not, mostly."""
    rng = np.random.default_rng(1)
    noticed, wrong = 0, 0
    for _ in range(200):
        shares = rng.dirichlet(np.full(8, 8.0), size=5)
        P = np.round(100 * shares)
        noticed += "percent" in multi_round(P, budget=0).read
        wrong += "percent" in multi_round(rng.integers(5, 21, (5, 8)), budget=0).read
    assert noticed > 195 and wrong < 4
    assert multi_round(np.array([[40, 60, 0], [0, 50, 50], [0, 0, 100]])).read == {"percent": 5}
    assert multi_round(np.array([[40, 60, 0], [0, 50, 50], [0, 0, 7]])).read == {"whole": 5}
    assert multi_round(np.array([[40, 60, 0], [0, 50, 50]]), doubles=True).read == {"whole": 4}
    assert multi_round(np.array([[50, 50], [50, 50]])).read == {"whole": 4}


def test_whole_numbers_that_doubles_make_equal_are_refused():
    """2^53 and 2^53 + 1 were one weight, for certain; in truth their round and a round of ones expose both clients."""
    for large in (2**53 + 1, 2**53, 2**63 + 1):
        with pytest.raises(SimflError, match=r"^round 1, client 1: weight 9.*e\+1\d cannot be told from others"):
            multi_round(np.array([[1, 1], [2, large]], dtype=np.uint64))
    assert audit(np.array([[2**53 - 1, 2**53 - 2], [1, 1]])).metrics.weak_lower == 1
    half = np.longdouble(1) / 2
    assert multi_round(np.array([[half, 2 * half]])).sure
    if half + half / 2**60 > half:  # where long doubles are longer
        with pytest.raises(SimflError, match=r"^round 0, client 1: "):
            multi_round(np.array([[half, half + half / 2**60]]))


def test_roundings_of_one_number_are_one_weight():
    """0.1 + 0.2 is not 0.3 as a double, but both are 3/10."""
    found = multi_round(np.array([[0.1 + 0.2, 0.3, 1 / 3]]))
    assert (found.strong, found.weak_lower) == (1, 3)
    assert multi_round(np.array([[0.1 + 0.2, 0.3], [1, 1]])).strong == 2


def test_the_weights_of_a_run_have_all_their_digits():
    """1/25 and 1/4 could be decimals that somebody rounded, but not in a run."""
    P = np.array([[1.0, 0.25, 0.04], [0.25, 0.0625, 0.01]])
    assert not multi_round(P).sure
    assert (multi_round(P, doubles=True).rank, trace(P, doubles=True).rank.tolist()) == (1, [1, 1])


def test_primes_are_primes_and_hold_the_roots():
    roots = [((2, Fraction(1, 2)), (5, Fraction(1, 2))), ((3, Fraction(3, 4)),), ((7, Fraction(1, 6)),)]
    for held in ([], roots, roots[2:]):
        drawn = primes(held, [np.arange(4)])
        for p in (next(drawn) for _ in range(4)):
            assert 2**31 < p < 2**32 and all(p % d for d in range(2, 2**16))
            for ell, exponent in (part for root in held for part in root):
                degree = exponent.denominator
                assert pow(ell, (p - 1) // gcd(degree, p - 1), p) == 1
    assert next(primes([], [])) == PRIMES[0]
    first, second = (list(zip(range(3), primes([], [np.array([x])]), strict=False)) for x in (1, 2))
    assert first[0] == second[0] and first[1:] != second[1:], "the others depend on the matrix"


def test_real_weights_as_rows():
    """1000 samples beside 1: of the sum nearly all is the first client's update."""
    ones = np.array([[1.0, 1.0]])
    P = with_samples(ones, np.array([1000, 1]))
    assert multi_round(ones).semi_strong == 2 and multi_round(P).semi_strong == pytest.approx(1.001)
    rng = np.random.default_rng(1)
    for _ in range(10):
        P = (rng.random((4, 6)) < 0.5) / rng.choice([1, 3, 7], (4, 6))
        P[0] = 1 / 3
        n = rng.integers(1, 1000, 6)
        one, other = multi_round(P), multi_round(with_samples(P, n))
        assert (one.rank, one.weak_lower, one.weak_upper) == (other.rank, other.weak_lower, other.weak_upper)
        assert (with_samples(P, n).toarray() == P * n).all()


def test_a_prefix_and_the_whole_never_contradict():
    rng = np.random.default_rng(3)
    for _ in range(20):
        P = (rng.random((8, 9)) < 0.4).astype(float)
        P[0] = 1
        columns = trace(P, budget=10**5)
        for t in range(8):
            alone = multi_round(P[: t + 1], budget=10**5)
            assert max(alone.weak_lower, columns.weak_lower[t]) <= min(alone.weak_upper, columns.weak_upper[t])
