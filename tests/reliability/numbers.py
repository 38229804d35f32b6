"""Bar 9: privacy numbers carry certificates, and agree with what is computed independently of simfl."""

from math import exp, log

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from simfl.core.rng import Streams
from simfl.privacy.dp.accountants.pld_and_rdp import Pld, Rdp
from simfl.privacy.dp.mechanisms import discrete_gaussian, discrete_laplace, gaussian, laplace, skellam, staircase
from tests.privacy.test_bruteforce import equals_brute_force, random_matrix
from tests.privacy.test_dp_mechanisms import chi_square
from tests.privacy.test_exact import holds
from tests.reliability.check import Case, Check, NotMeasured, Outcome, Plan, when
from tests.reliability.tested import tested
from tests.support.privacy_kinds import KINDS, SURE
from tests.support.staircase import density

DRAWS = 10**6
SURELY = 0.001


def guarantees(plan: Plan) -> Case:
    """A random matrix of up to twelve clients."""

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        P = np.zeros((1, 1))
        while not P.any():
            P = random_matrix(rng, 12 if number % 5 == 0 else 8)
        equals_brute_force(P)
        return Outcome()

    return case


def readings(plan: Plan) -> Case:
    """A matrix of one of the kinds of weights, as it is written down and as it is meant."""
    names = list(KINDS)

    def case(number: int) -> Outcome:
        name, rng, sure = names[number % len(names)], np.random.default_rng([plan.seed, number]), True
        P, truth = KINDS[name](rng)
        if np.any(P):
            sure = holds(P, truth)
        wrong = (f"{name}: read with doubt",) if name in SURE and not sure else ()
        return Outcome(wrong, {} if sure else {"an interval, for lack of digits": 1})

    return case


# -- epsilon ------------------------------------------------------------------------------------------------


def bracket(z: float, q: float, rounds: int, delta: float) -> tuple[float, float]:
    """Bounds of the least epsilon of a Poisson-sampled Gaussian, by the privacy loss on a grid, rounded down and up.

    The loss of one round is ``log(1 - q + q exp((2x - 1) / 2z²))``; its law, in either direction, is read off the
    normal distribution function, and the law of a sum of losses is a power of its Fourier transform.
    """
    width, size = 20.0, 2**20
    step = 2 * width / size
    grid = (np.arange(size) - size // 2) * step
    with np.errstate(divide="ignore", invalid="ignore"):
        at = z**2 * np.log(np.maximum(np.exp(grid) - (1 - q), 0) / q) + 0.5  # where the loss is that; -inf below all
        back = z**2 * np.log(np.maximum(np.exp(-grid) - (1 - q), 0) / q) + 0.5
    with_it = np.diff((1 - q) * stats.norm.cdf(at, scale=z) + q * stats.norm.cdf(at, 1, z))
    without = np.diff(stats.norm.sf(back, scale=z))
    found = []
    for shift in (0, 1):  # the whole cell's mass at its lower, or its upper end
        each = []
        for law in (with_it, without):
            mass = np.zeros(size)
            mass[shift : shift + size - 1] = law
            total = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(mass)) ** rounds, size)
            each.append(_least(grid[size // 2 :], np.fft.fftshift(np.maximum(total, 0))[size // 2 :], delta))
        found.append(max(each))
    return found[0], found[1]


def _least(losses: np.ndarray, mass: np.ndarray, delta: float) -> float:
    """The least of these losses e with E[1 - exp(e - loss)] above it at most delta."""
    above = np.cumsum(mass[::-1])[::-1] - np.exp(losses) * np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
    return float(losses[np.argmax(above <= delta)])


def epsilons(plan: Plan) -> Case:
    """Accountants on random noise, rate and rounds."""

    def case(number: int) -> Outcome:
        try:
            import dp_accounting  # noqa: F401
        except ImportError:
            raise NotMeasured('the extra "dp" is not installed') from None
        rng = np.random.default_rng([plan.seed, number])
        z, rounds, delta = float(rng.uniform(0.7, 4)), int(rng.integers(1, 60)), float(rng.choice([1e-5, 1e-6]))
        q = float(rng.choice([1.0, rng.uniform(0.02, 0.5)]))
        while rounds * q**2 / z**2 > 4:  # of no use to anybody, and beyond the grid
            rounds = max(1, rounds // 2)
            z *= 1.2
        low, high = bracket(z, q, rounds, delta) if q < 1 else (_profile(rounds**0.5 / z, delta),) * 2
        keys = {"delta": delta, "amplification": "poisson", "rate": q}
        exact, renyi = (kind(**keys).of_sample(1 / z, rounds, 100) for kind in (Pld, Rdp))
        about = f"z={z:.3f}, q={q:.3f}, {rounds} rounds, delta={delta}"
        wrong = when(
            not low * (1 - 1e-3) <= exact <= high * (1 + 5e-3),
            f"{about}: PLD says {exact:.5f}, it is {low:.5f} to {high:.5f}",
        )
        wrong += when(renyi < low * (1 - 1e-3), f"{about}: Rényi says {renyi:.5f}, less than {low:.5f}")
        if q == 1:
            closed = float(gaussian.epsilon(rounds**0.5 / z, delta))
            wrong += when(abs(closed - low) > 1e-5 * low, f"{about}: zero_out says {closed:.6f}, it is {low:.6f}")
            best = _renyi(rounds / z**2, delta)
            wrong += when(abs(renyi - best) > 0.01 * best, f"{about}: Rényi says {renyi:.5f}, it is {best:.5f}")
        return Outcome(tuple(wrong), {"whole cohorts" if q == 1 else "samples": 1})

    return case


def _profile(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian mechanism: the root of its profile (Balle and Wang 2018, Theorem 8)."""
    cdf = stats.norm.cdf
    profile = lambda e: cdf(mu / 2 - e / mu) - exp(e + stats.norm.logcdf(-mu / 2 - e / mu)) - delta  # noqa: E731
    return brentq(profile, 0, 100, xtol=1e-12) if profile(0) > 0 else 0.0


def _renyi(square: float, delta: float) -> float:
    """The least epsilon over Rényi orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    orders = 1 + np.geomspace(0.01, 2000, 200_000)
    found = orders * square / 2 + np.log1p(-1 / orders) - (log(delta) + np.log(orders)) / (orders - 1)
    return float(found.min())


# -- noise ---------------------------------------------------------------------------------------------------


def _whole(found, log_law, std: float) -> float:
    """p of whole numbers against a law that is known up to its total."""
    most, far = int(7 * std) + 3, int(60 * std) + 60
    values = np.exp([log_law(k) for k in range(-far, far + 1)])
    law = dict(zip(range(-far, far + 1), values / values.sum()))
    return chi_square(found, law.__getitem__, -most, most)


def _steps(found, epsilon: float, gamma: float) -> float:
    """p of staircase noise against the integral of its density."""
    edges = np.unique([2.0 * (k + step) for k in range(60) for step in (0, gamma)])
    widths, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    half = np.append(0, np.cumsum(widths * [density(x, 2.0, epsilon, gamma) for x in middles]))
    return stats.kstest(found, lambda x: 0.5 + np.sign(x) * np.interp(np.abs(x), edges, half)).pvalue


LAWS = {
    "laplace": lambda rng, u: stats.kstest(laplace.sample(rng, 1 + u, DRAWS), stats.laplace(scale=1 + u).cdf).pvalue,
    "gaussian": lambda rng, u: stats.kstest(gaussian.sample(rng, 1 + u, DRAWS), stats.norm(scale=1 + u).cdf).pvalue,
    "shares of laplace": lambda rng, u: stats.kstest(
        sum(laplace.share(rng, 1 + u, 1 / 3, DRAWS) for _ in range(3)), stats.laplace(scale=1 + u).cdf).pvalue,
    "staircase": lambda rng, u: _steps(
        staircase.sample(rng, 2.0, 0.5 + 3 * u, staircase.least_variance(0.5 + 3 * u), DRAWS), 0.5 + 3 * u,
        staircase.least_variance(0.5 + 3 * u)),
    "skellam": lambda rng, u: chi_square(
        skellam.sample(rng, 0.3 + 30 * u, DRAWS), lambda k: stats.skellam.pmf(k, 0.15 + 15 * u, 0.15 + 15 * u),
        -int(6 * (0.3 + 30 * u) ** 0.5) - 3, int(6 * (0.3 + 30 * u) ** 0.5) + 3),
    "discrete gaussian": lambda rng, u: _whole(
        discrete_gaussian.sample(rng, 0.25 + 40 * u, DRAWS), lambda k: -(k**2) / 2 / (0.25 + 40 * u),
        (0.25 + 40 * u) ** 0.5),
    "shares of discrete laplace": lambda rng, u: _whole(
        sum(discrete_laplace.share(rng, 0.5 + 5 * u, 0.5, DRAWS) for _ in range(2)), lambda k: -abs(k) / (0.5 + 5 * u),
        2 * (0.5 + 5 * u)),
}  # fmt: skip


def noise(plan: Plan) -> Case:
    """A million draws of one law, of a random size."""
    names = list(LAWS)

    def case(number: int) -> Outcome:
        name, size = names[number % len(names)], float(np.random.default_rng([plan.seed, number]).random())
        p = LAWS[name](Streams(plan.seed)("bars/noise", number), size)
        wrong = (f"{name} of size {size:.3f}: p = {p:.2g}",) if p < SURELY / 10 else ()
        return Outcome(wrong, {"draws": DRAWS})

    return case


CHECKS = (
    Check(9, "guarantees", "random matrices of at most 12 clients; strong, semi-strong, weak, rank of every prefix "
          "equal exhaustion in fractions, bounds within 1e-7, witnesses exact",
          "matrices", (3, 200, 5_000), guarantees),
    Check(9, "readings", "matrices of many kinds of weights (fractions, roots, decimals, collisions modulo primes); "
          "nothing is claimed that is not so", "matrices", (3, 400, 10_000), readings),
    Check(9, "epsilons", "random noise, rates, rounds; PLD at most 1e-3 below and 5e-3 above a bracket of our own, "
          "Rényi never below it and within 1 % of its closed form, zero_out within 1e-5",
          "mechanisms", (1, 10, 1_000), epsilons),
    Check(9, "noise", "a million draws of a law; Kolmogorov-Smirnov or chi-square (p > 0.0001, as there are many)",
          "laws", (1, len(LAWS), 20 * len(LAWS)), noise),
    tested(9, "privacy-tests", "published values of guarantees and epsilons; a small budget says bounded, never exact",
           "privacy/test_multi_round.py::test_published_cases",
           "privacy/test_multi_round.py::test_small_budgets_give_wider_but_true_answers",
           "privacy/test_dp_accounting.py::test_the_library_says_the_published_values",
           nightly=("privacy/test_multi_round.py", "privacy/test_dp_accounting.py", "privacy/test_dp_mechanisms.py",
                    "privacy/test_colluders.py", "selection/test_guarded.py", "selection/test_guarded_properties.py")),
)  # fmt: skip
