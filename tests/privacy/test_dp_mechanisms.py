"""Noise: every sampler against its distribution, every closed form against published and computed values."""

import itertools
from decimal import Context, Decimal
from fractions import Fraction
from math import comb, exp, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.signal import fftconvolve
from scipy.special import ndtr

from simfl.core.rng import Streams
from simfl.privacy.dp.losses import ORDERS, rdp_epsilon
from simfl.privacy.dp.mechanisms import discrete_gaussian, discrete_laplace, gaussian, laplace, skellam, staircase
from simfl.privacy.dp.mechanisms.log_concave import log_concave_sampler
from tests.support.staircase import density

DRAWS = 250_000  # a million in benchmarks/reliability.py --only noise
SURE = 1e-3


def stream(name, *key):
    return Streams(7)(name, *key)


def cumulative(density, most, points=4000):
    """The distribution function of a symmetric density, by quadrature on a grid that is fine around 0."""
    grid = most * np.linspace(0, 1, points) ** 4
    parts = [quad(density, a, b)[0] for a, b in zip(grid[:-1], grid[1:], strict=True)]
    half = np.append(0, np.cumsum(parts))
    assert half[-1] == pytest.approx(0.5, abs=1e-6), "a density"
    return lambda x: 0.5 + np.sign(x) * np.interp(np.abs(x), grid, half)


# -- samplers ---------------------------------------------------------------------------------------------


def test_laplace_and_gaussian_are_what_they_are_called():
    assert stats.kstest(laplace.sample(stream("l"), 2.0, DRAWS), stats.laplace(scale=2.0).cdf).pvalue > SURE
    assert stats.kstest(gaussian.sample(stream("g"), 3.0, DRAWS), stats.norm(scale=3.0).cdf).pvalue > SURE


@pytest.mark.parametrize("n", [2, 50, 300])
def test_all_shares_are_laplace(n):
    size = DRAWS * 2 // n if n > 10 else DRAWS
    total = np.sum([laplace.share(stream("share", i), 1.5, 1 / n, size) for i in range(n)], axis=0)
    assert stats.kstest(total, stats.laplace(scale=1.5).cdf).pvalue > SURE


@pytest.mark.parametrize("shape", [0.9, 0.7, 0.6])
def test_fewer_shares_have_their_own_distribution(shape):
    found = laplace.share(stream("few"), 1.5, shape, DRAWS)
    cdf = cumulative(lambda x: exp(laplace.log_density(x, 1.5, shape)), 60.0, 1000)
    assert stats.kstest(found, cdf).pvalue > SURE
    assert found.var() == pytest.approx(2 * 1.5**2 * shape, rel=0.02)
    assert stats.kstest(found, stats.laplace(scale=1.5).cdf).pvalue < 1e-9, "and it is not Laplace"


@pytest.mark.parametrize("shape", [0.001, 0.01, 0.1, 0.6])
def test_tails_of_shares_hold_as_much_as_they_should(shape):
    found = np.abs(laplace.share(stream("share tails"), 1.5, shape, 2 * DRAWS))
    for far in (0.01, 1.5, 6.0, 12.0):
        expected = 4 * DRAWS * quad(lambda x: exp(laplace.log_density(x, 1.5, shape)), far, 90.0, limit=500)[0]
        assert abs((found > far).sum() - expected) < 4.5 * expected**0.5 + 1


@pytest.mark.parametrize("shape", [0.01, 0.2, 0.5, 1.0])
def test_shares_have_their_characteristic_function(shape):
    found = laplace.share(stream("cf"), 2.0, shape, DRAWS)
    for t in (0.1, 0.5, 2.0):
        assert np.cos(t * found).mean() == pytest.approx((1 + 4 * t**2) ** -shape, abs=5e-3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("least", [staircase.least_magnitude, staircase.least_variance])
def test_staircase(epsilon, least):
    gamma = least(epsilon)
    found = staircase.sample(stream("stairs"), 2.0, epsilon, gamma, DRAWS)
    edges = np.unique([2.0 * (k + step) for k in range(60) for step in (0, gamma)])
    widths, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    half = np.append(0, np.cumsum(widths * [density(x, 2.0, epsilon, gamma) for x in middles]))
    cdf = lambda x: 0.5 + np.sign(x) * np.interp(np.abs(x), edges, half)  # noqa: E731
    assert half[-1] == pytest.approx(0.5, abs=1e-12 + exp(-60 * epsilon))
    assert stats.kstest(found, cdf).pvalue > SURE
    if least is staircase.least_magnitude:
        assert np.abs(found).mean() == pytest.approx(2.0 * np.exp(-epsilon / 2) / -np.expm1(-epsilon), rel=0.01)
    else:
        b = np.exp(-epsilon)
        least_variance = 4 * (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2
        assert found.var() == pytest.approx(least_variance, rel=0.02)


def chi_square(found, probability, low, high):
    """p of whole numbers against probabilities of low ... high, what lies beyond in the last bins."""
    values = np.arange(low, high + 1)
    expected = np.array([probability(k) for k in values.tolist()]) * len(found)
    counts = np.array([(found == k).sum() for k in values.tolist()])
    expected, counts = np.append(expected, len(found) - expected.sum()), np.append(counts, len(found) - counts.sum())
    enough = expected > 5
    return stats.chisquare(counts[enough], expected[enough] * counts[enough].sum() / expected[enough].sum()).pvalue


@pytest.mark.parametrize("variance", [0.3, 2.0, 30.0])
def test_skellam(variance):
    found = skellam.sample(stream("skellam"), variance, DRAWS)
    most = int(6 * variance**0.5) + 3
    assert chi_square(found, lambda k: stats.skellam.pmf(k, variance / 2, variance / 2), -most, most) > SURE


@pytest.mark.parametrize("variance", [0.25, 1.0, 2.5, 40.0])
def test_discrete_gaussian(variance):
    found = discrete_gaussian.sample(stream("discrete"), variance, DRAWS)
    most = int(7 * variance**0.5) + 3
    total = sum(exp(-(k**2) / 2 / variance) for k in range(-5 * most, 5 * most + 1))
    assert chi_square(found, lambda k: exp(-(k**2) / 2 / variance) / total, -most, most) > SURE


@pytest.mark.parametrize("n, scale", [(1, 0.7), (2, 5.0), (20, 5.0), (100, 300.0)])
def test_all_polya_shares_are_discrete_laplace(n, scale):
    size = DRAWS if n < 3 else DRAWS // 5
    found = np.sum([discrete_laplace.share(stream("polya", i), scale, 1 / n, size) for i in range(n)], axis=0)
    p = exp(-1 / scale)
    most = min(int(9 * scale), 400)
    assert chi_square(found, lambda k: (1 - p) / (1 + p) * p ** abs(k), -most, most) > SURE
    assert found.var() == pytest.approx(discrete_laplace.variance(scale, 1.0), rel=0.02)
    for far in (3, 6):
        edge = int(far * scale) + 1
        expected = size * 2 * p**edge / (1 + p)
        assert abs((np.abs(found) >= edge).sum() - expected) < 4.5 * expected**0.5 + 1


def polya(scale, shape):
    """Probabilities of -K ... K of a difference of two negative binomials, by convolution, and K."""
    most = int(40 * scale) + 40
    one = stats.nbinom.pmf(np.arange(most + 1), shape, -np.expm1(-1 / scale))
    return fftconvolve(one, one[::-1]), most


@pytest.mark.parametrize("shape", [0.9, 0.6, 0.3, 0.02])
@pytest.mark.parametrize("scale", [0.5, 4.0, 250.0])
def test_fewer_polya_shares_have_their_own_law(scale, shape):
    law, most = polya(scale, shape)
    near = min(most, int(8 * scale) + 1, 300)
    found = discrete_laplace.share(stream("few", int(scale), int(100 * shape)), scale, shape, DRAWS // 2)
    assert chi_square(found, lambda k: law[most + k], -near, near) > SURE
    for k in {1, 2, int(scale) + 1, int(3 * scale) + 1}:
        exact = float(np.log(law[most + k] / law[most]))
        assert discrete_laplace.log_ratio(k, scale, shape) == pytest.approx(exact, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("shape", [1.0, 0.8, 0.5, 0.2])
@pytest.mark.parametrize("shift, d", [(1, 1), (4, 1), (3, 2), (5, 3)])
def test_epsilon_of_polya_shares_is_the_largest_loss_there_is(shape, shift, d):
    """Over every way to share a shift out among the coordinates, and every output of each."""
    scale = 3.0
    law, most = polya(scale, shape)
    k = np.arange(-60, 61)
    loss = [float(np.log(law[most + k] / law[most + k - x]).max()) for x in range(shift + 1)]
    ways = [way for way in itertools.product(range(shift + 1), repeat=d) if sum(way) <= shift]
    worst = max(sum(loss[x] for x in way) for way in ways)
    assert discrete_laplace.pure_epsilon(shift, scale, shape, d) == pytest.approx(worst, rel=1e-6)
    if shape == 1:
        assert worst == pytest.approx(shift / scale)


def test_polya_shares_of_fine_steps_cost_what_shares_of_real_numbers_do():
    for shape in (0.9, 0.8, 0.7):
        fine = discrete_laplace.pure_epsilon(1 << 20, float(1 << 20), shape)
        assert fine == pytest.approx(laplace.pure_epsilon(1.0, 1.0, shape), rel=2e-3)
    assert discrete_laplace.pure_epsilon(1 << 16, float(1 << 16), 0.3) < inf, "finite, other than of real numbers"


@pytest.mark.parametrize("sample, std", [
    (discrete_gaussian.sample, 300.0), (discrete_gaussian.sample, 2.0**30), (skellam.sample, 300.0),
    (skellam.sample, 2.0**19),  # the widest that the stage allows
])  # fmt: skip
def test_wide_whole_noise_looks_gaussian(sample, std):
    found = sample(stream("wide"), std**2, DRAWS // 5)
    smooth = found + stream("smooth").random(len(found)) - 0.5
    assert stats.kstest(smooth / std, "norm").pvalue > SURE


# -- tables of strips ---------------------------------------------------------------------------------------

LAWS = {
    "discrete_gaussian": (discrete_gaussian.sample, lambda v: lambda k: -(k**2) / (2 * v)),
    "skellam": (skellam.sample, lambda v: lambda k: skellam.log_ratio(k.astype(np.int64), v)),
}


@pytest.mark.parametrize("variance", [0.05, 3.0, 1e4, 3e9])
@pytest.mark.parametrize("name", LAWS)
def test_tails_hold_as_much_as_they_should(name, variance):
    """Counts beyond 2, 3, 4 and 4.5 standard deviations, and the variance, against sums of exact probabilities."""
    sample, law = LAWS[name]
    found, std = np.abs(sample(stream("tails", int(variance)), variance, 8 * DRAWS)), variance**0.5
    step = max(1, int(std / 2000))  # of a wide law, every so manieth value
    values = np.arange(0, int(9 * std) + 40, step).astype(float)
    weights = np.exp(law(variance)(values)) * np.where(values == 0, 1.0, 2.0)
    shares = weights / weights.sum()
    for far in (2.0, 3.0, 4.0, 4.5):
        edge = step * int(far * std / step) + 1
        expected = 8 * DRAWS * float(shares[values >= edge].sum())
        count = int((found >= edge).sum())
        assert abs(count - expected) <= 4.5 * expected**0.5 + 1, (far, count, expected)
    exact = float((shares * values**2).sum())
    assert np.mean(found.astype(float) ** 2) == pytest.approx(exact, rel=max(0.005, 0.02 / variance**0.5))


@pytest.mark.parametrize("log_f", [
    lambda k: -(k.astype(float) ** 2) / 18.0, lambda k: -np.abs(k) / 4.0, lambda k: skellam.log_ratio(k, 7.0),
])  # fmt: skip
@pytest.mark.parametrize("reach", [0.5, 2.0, 45.0])
def test_what_lies_beyond_the_strips_is_drawn_as_well(log_f, reach):
    """Tables that stop early leave much to the tails: the law stays the same."""
    found = log_concave_sampler(log_f, reach=reach).draw(stream("reach"), DRAWS // 10 if reach > 2 else 3000)
    total = np.exp(log_f(np.arange(-400, 401))).sum()
    assert chi_square(found, lambda k: float(np.exp(log_f(np.array([k]))[0])) / total, -25, 25) > SURE


@pytest.mark.parametrize("variance", [0.3, 50.0, 1e7])
def test_the_weights_of_strips_are_whole_and_cover_the_law(variance):
    table = discrete_gaussian._table(variance)
    assert sum(table.weights) == 2**64
    full, cells = 1 << 54, len(table.share)
    given = np.zeros(cells, dtype=object)
    for cell, (share, other) in enumerate(zip(table.share.tolist(), table.other.tolist(), strict=True)):
        given[cell] += share
        given[other] += full - share
    assert given.tolist() == table.weights + [0] * (cells - len(table.weights)), "the cells are the strips, exactly"
    width = 1 << table.bits
    for i in range(0, len(table.weights) - 2, 37):
        first = i * width - table.end
        inside = [table.exact(k) for k in {first, first + width // 2, first + width - 1}]
        bound = Fraction(table.weights[i]) / Fraction(table.height) / width
        assert all(Fraction(p) <= bound for p in inside)
        least = min(Fraction(p) for p in inside) / bound * 2 ** (64 - table.bits)
        assert int(table.sure[i]) <= least


class Bits:
    """Gives the bits it is told to."""

    def __init__(self, words):
        self.words = list(words)

    def integers(self, high):
        return self.words.pop(0)


def test_doubtful_comparisons_are_decided_by_further_bits():
    """A number whose first bits are those of the probability: the next words decide, exactly."""
    table = discrete_gaussian._table(1e7)
    k, strip = 2500, (2500 + table.end) >> table.bits
    p = Fraction(table.exact(k)) * Fraction(table.height) * 2**table.bits / table.weights[strip]
    known = 64 - table.bits
    bits, rest = divmod(p * 2**known, 1)
    words, after = divmod(rest * 2**32, 1)
    assert table._exactly_below(Bits([int(words) - 1]), int(bits), strip, k) is True
    assert table._exactly_below(Bits([int(words) + 1]), int(bits), strip, k) is False
    third = int(after * 2**32)
    assert table._exactly_below(Bits([int(words), third - 1]), int(bits), strip, k) is True
    assert table._exactly_below(Bits([int(words), third + 1]), int(bits), strip, k) is False


@pytest.mark.parametrize("variance", [0.001, 0.3, 5.0, 39.9, 40.0, 60.0, 1000.0])
def test_skellam_probabilities_are_right_to_their_slack(variance):
    """Against the power series of Bessel functions in sixty digits."""

    def bessel(k):
        c, x = Context(prec=60), Decimal(variance)
        term = Decimal(1)
        for i in range(1, k + 1):
            term = c.divide(c.multiply(term, x), 2 * i)
        total, m = term, 1
        while m < 5 or term > total * Decimal(10) ** -40:
            term = c.divide(c.multiply(term, c.multiply(x, x)), 4 * m * (m + k))
            total, m = c.add(total, term), m + 1
        return total

    for k in {int(z * max(variance, 0.2) ** 0.5) for z in range(10)}:
        found = float(skellam.log_ratio(np.array([k]), variance)[0])
        assert abs(float(Decimal(found).exp() / (bessel(k) / bessel(0)) - 1)) < skellam.SLACK / 5


def test_slack_bounds_the_divergence_of_wrong_probabilities():
    """Probabilities wrong by a factor up to e^h either way, the worst that alternate."""
    h, x = 1e-4, np.arange(-300, 301)
    p, q = (stats.skellam.pmf(x - at, 100.0, 100.0) for at in (0, 5))
    wrong = np.exp(h * np.sign(p - q))
    for alpha in (2, 3, 16):
        off = exact_renyi(p * wrong, q / wrong, alpha) - exact_renyi(p, q, alpha)
        assert 0 < off <= skellam.slack(h / skellam.SLACK)


# -- closed forms -----------------------------------------------------------------------------------------


def test_the_published_gaussian_scales():
    analytic = [gaussian.std(1.0, epsilon, 1e-5) for epsilon in (0.5, 1, 16)]
    assert analytic == pytest.approx([7.0318, 3.7306, 0.3442], abs=5e-5)
    classical = [gaussian.classical_std(1.0, epsilon, 1e-5) for epsilon in (0.5, 1)]
    assert classical == pytest.approx([9.6896, 4.8448], abs=1e-4)
    with pytest.raises(ValueError, match="up to 1"):
        gaussian.classical_std(1.0, 16, 1e-5)
    assert float(gaussian.delta(16, 1 / 0.3028)) == pytest.approx(3.4e-4, rel=0.02), "why"


@given(st.floats(1e-3, 30), st.floats(1e-12, 0.5))
@settings(max_examples=200, deadline=None)
def test_epsilon_inverts_the_profile(mu, delta):
    found = float(gaussian.epsilon(mu, delta))
    straight = ndtr(mu / 2 - found / mu) - exp(min(found, 700)) * ndtr(-mu / 2 - found / mu)
    if found == 0:
        assert 2 * ndtr(mu / 2) - 1 <= delta * (1 + 1e-9)
    else:
        assert float(gaussian.delta(found, mu)) == pytest.approx(delta, rel=1e-8)
        if delta > 1e-6 and found < 100:
            assert straight == pytest.approx(delta, rel=1e-5)


def test_epsilon_at_the_ends():
    assert gaussian.epsilon([0.0, inf], 1e-5).tolist() == [0.0, inf]
    assert gaussian.epsilon(np.array([[1.0], [2.0]]), 1e-5).shape == (2, 1)
    assert float(gaussian.epsilon(1e4, 1e-5)) == pytest.approx(1e8 / 2 + 1e4 * 4.2649, rel=1e-6)
    assert 1 / gaussian.mu(1.0, 1e-5) == gaussian.std(1.0, 1.0, 1e-5)


def test_drops_restate_epsilon():
    """z = 10, 60 rounds, delta 1e-6; of 100 shares 0, 10, 30, 50 are missing."""
    found = [float(gaussian.epsilon((60 / (1 - lost)) ** 0.5 / 10, 1e-6)) for lost in (0, 0.1, 0.3, 0.5)]
    assert found == pytest.approx([3.6624, 3.8855, 4.4772, 5.4225], abs=5e-5)


def test_fewer_shares_cost_more_and_half_of_them_everything():
    found = [laplace.pure_epsilon(1.0, 1.0, shape) for shape in (0.9, 0.8, 0.7, 0.6)]
    assert found == pytest.approx([1.188, 1.443, 1.820, 2.490], abs=6e-4)
    low = [laplace.pure_epsilon(1.0, 10.0, shape) for shape in (0.9, 0.8, 0.7, 0.6)]
    assert low == pytest.approx([0.161, 0.270, 0.478, 0.956], abs=6e-4)
    assert laplace.pure_epsilon(1.0, 1.0, 0.5) == inf and laplace.pure_epsilon(1.0, 1.0, 1.0) == 1.0
    assert laplace.pure_epsilon(1.0, 1.0, 1.4) == 1.0 and laplace.pure_epsilon(0.0, 1.0, 0.2) == 0.0
    assert laplace.pure_epsilon(1.0, 1.0, 0.8, coordinates=0) == 0.0, "a model without parameters"
    assert discrete_laplace.pure_epsilon(1, 1.0, 0.8, coordinates=0) == 0.0


@pytest.mark.parametrize("shape", [0.6, 0.8])
def test_the_worst_shift_of_several_coordinates_is_spread_evenly(shape):
    """The loss at 0 is concave in the shift: any other way to share an L1 norm out costs less."""
    worst, rng = laplace.pure_epsilon(1.0, 1.0, shape, coordinates=5), stream("shifts")
    one = [laplace.pure_epsilon(1.0, 1.0, shape)]
    for _ in range(200):
        parts = rng.dirichlet(np.ones(5))
        assert sum(laplace.pure_epsilon(float(p), 1.0, shape) for p in parts) <= worst * (1 + 1e-12)
    assert worst > one[0]


def test_the_discrete_gaussians_distance():
    assert discrete_gaussian.tau(100, 0.25) == pytest.approx(9.7, abs=0.05)
    assert discrete_gaussian.tau(100, 1.0) == pytest.approx(5.5e-4, abs=5e-6)
    assert discrete_gaussian.tau(100, 4.0) == pytest.approx(7e-17, rel=0.05)


def exact_renyi(p, q, alpha):
    """The Renyi divergence of two laws on the same whole numbers."""
    keep = (p > 0) & (q > 0)
    return float(np.log(np.sum(np.exp(alpha * np.log(p[keep]) - (alpha - 1) * np.log(q[keep])))) / (alpha - 1))


@pytest.mark.parametrize("variance, shift", [(4.0, 1), (30.0, 3), (400.0, 10)])
def test_the_bounds_of_whole_noise_hold_and_are_near(variance, shift):
    x = np.arange(-int(40 * variance**0.5), int(40 * variance**0.5) + 1)
    for alpha in (2, 5, 16):
        p, q = (stats.skellam.pmf(x - at, variance / 2, variance / 2) for at in (0, shift))
        exact, bound = exact_renyi(p, q, alpha), float(skellam.rdp(np.array([alpha]), shift, shift, variance)[0])
        assert exact <= bound * (1 + 1e-9)
        if variance >= 30 and alpha < 16:
            assert bound < 1.5 * exact
        p, q = (np.exp(-((x - at) ** 2) / 2 / variance) for at in (0, shift))
        exact = exact_renyi(p / p.sum(), q / q.sum(), alpha)
        bound = float(discrete_gaussian.rdp(np.array([alpha]), shift, shift, 1, 1, variance)[0])
        assert exact <= bound * (1 + 1e-9) and bound == pytest.approx(alpha * shift**2 / 2 / variance)


def test_a_sum_of_discrete_gaussians_is_within_its_bound():
    """Four clients of variance 1/2: the exact law of the sum, by convolution."""
    x = np.arange(-60, 61)
    one = np.exp(-(x**2) / 2 / 0.5)
    law = np.array([1.0])
    for _ in range(4):
        law = np.convolve(law, one / one.sum())
    for alpha in (2, 4, 8):
        exact = exact_renyi(law[1:], law[:-1], alpha)
        assert exact <= float(discrete_gaussian.rdp(np.array([alpha]), 1, 1, 1, 4, 0.5)[0])


def test_renyi_divergences_become_an_epsilon():
    """Gaussian, z = 1: what dp-accounting says, whose orders are finer."""
    assert np.min([rdp_epsilon(np.array(a / 2), a, 1e-5) for a in ORDERS]) == pytest.approx(4.7285, abs=0.03)


# -- privacy-loss histograms ------------------------------------------------------------------------------


def excess(one, other, epsilon, delta, bins=200):
    """How far P[one in S] - e^epsilon P[other in S] exceeds delta, for the worst S made of bins, in standard errors,
    either way round. S is chosen with one half of the draws and judged with the other."""
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, bins + 1)))
    edges[0], edges[-1] = -inf, inf
    shares = [[np.histogram(half, edges)[0] / len(half) for half in (x[::2], x[1::2])] for x in (one, other)]
    worst = -inf
    for (chosen_a, a), (chosen_b, b) in (shares, shares[::-1]):
        some = chosen_a > exp(epsilon) * chosen_b
        if some.any():
            error = ((a[some].sum() + exp(2 * epsilon) * b[some].sum()) / (len(one) // 2)) ** 0.5
            worst = max(worst, (a[some].sum() - exp(epsilon) * b[some].sum() - delta) / error)
    return worst


CASES = {
    "laplace": (lambda rng, n: laplace.sample(rng, 1.0, n), 1.0, 0.0),
    "staircase": (lambda rng, n: staircase.sample(rng, 1.0, 1.0, staircase.least_magnitude(1.0), n), 1.0, 0.0),
    "shares": (lambda rng, n: laplace.share(rng, 1.0, 0.8, n), laplace.pure_epsilon(1.0, 1.0, 0.8), 0.0),
    "gaussian": (lambda rng, n: gaussian.sample(rng, 1.0, n), float(gaussian.epsilon(1.0, 0.05)), 0.05),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_stay_within_epsilon_and_come_near_it(name):
    draw, epsilon, delta = CASES[name]
    one, other = draw(stream("one"), DRAWS), 1.0 + draw(stream("other"), DRAWS)
    assert excess(one, other, epsilon, delta) < 4
    assert excess(one, other, 0.7 * epsilon, delta) > 10, "less would not have been true"


def test_the_shares_of_half_the_clients_protect_nothing():
    """Whatever epsilon is claimed, there is a bin around 0 that breaks it."""
    one, other = (shift + laplace.share(stream("half", shift), 1.0, 0.3, DRAWS) for shift in (0, 1))
    near = 1e-6
    assert np.mean(np.abs(one) < near) > 100 * max(np.mean(np.abs(other) < near), 1e-6)


def test_binomial_of_theory():
    """A sanity check of the chi-square helper itself: it must reject a wrong law."""
    found = stream("wrong").binomial(10, 0.5, 10**5)
    assert chi_square(found, lambda k: comb(10, k) * 2.0**-10, 0, 10) > SURE
    assert chi_square(found, lambda k: comb(10, k) * 0.49**k * 0.51 ** (10 - k), 0, 10) < SURE
