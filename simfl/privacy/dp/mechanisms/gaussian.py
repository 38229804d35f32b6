"""Gaussian noise: its exact privacy profile, in log space, for one loss or for as many as there are clients.

The analytic profile is Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018,
Theorem 8. With mu = sensitivity / std it holds for compositions, too: of Gaussian mechanisms with mu_1, mu_2, ... the
mu is the root of the sum of their squares, also where each is chosen after the others' answers (Dong, Roth and Su,
"Gaussian differential privacy", 2022, Corollary 3.3).
"""

from functools import cache
from math import inf, log, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEPS = 60
"""Newton steps at most; about six are needed."""


def sample(rng: np.random.Generator, std: float, size: int) -> NDArray[np.float64]:
    """Gaussian noise of mean 0, (size,)."""
    return rng.normal(0.0, std, size)


def classical_std(sensitivity: float, epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25 / delta)) sensitivity / epsilon (Dwork and Roth 2014, Theorem A.1).

    Raises:
        ValueError: epsilon is above 1, where the theorem says nothing.
    """
    if not 0 < epsilon <= 1:
        raise ValueError(f"the classical Gaussian mechanism is private for epsilon up to 1, not {epsilon:g}")
    return sqrt(2 * log(1.25 / delta)) * sensitivity / epsilon


def delta(epsilon: ArrayLike, mu: ArrayLike) -> NDArray[np.float64]:
    """delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), of any shapes that fit together."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.exp(_log_delta(np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64))[0])
    return np.where(np.asarray(mu) == 0, 0.0, value)


def epsilon(mu: ArrayLike, delta: float) -> NDArray[np.float64]:
    """The least epsilon for which a loss of mu is (epsilon, delta)-private, of the shape of mu.

    ``mu``: sensitivity over standard deviation; 0 = not seen at all, infinite = without noise. ``delta`` in (0, 1).
    """
    from scipy.special import ndtri

    losses = np.asarray(mu, dtype=np.float64)
    flat = losses.ravel()
    epsilons = np.where(np.isfinite(flat), 0.0, inf)  # of no number nothing is known
    # at epsilon 0, delta is 2 Phi(mu/2) - 1: where that is less, nothing is lost
    hard = np.flatnonzero(np.isfinite(flat) & (flat > 2 * ndtri((1 + delta) / 2)))
    left = flat[hard]
    at = np.maximum(left**2 / 2 - left * ndtri(delta), 0.0)  # too much: Phi(mu/2 - epsilon/mu) = delta
    for _ in range(STEPS):
        value, slope = _log_delta(at, left)
        step = (value - log(delta)) / slope
        at = np.maximum(at - step, 0.0)
        if (np.abs(step) <= 1e-13 * (1 + at)).all():
            break
    epsilons[hard] = at
    return epsilons.reshape(losses.shape)


@cache
def mu(epsilon: float, delta: float) -> float:
    """The largest mu that is (epsilon, delta)-private, by bisection."""
    low, high = 0.0, 1.0
    while _epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def std(sensitivity: float, epsilon: float, delta: float) -> float:
    """The least standard deviation that is (epsilon, delta)-private, for any epsilon; sensitivity in L2."""
    return sensitivity / mu(epsilon, delta)


def _epsilon(mu: float, delta: float) -> float:
    return float(epsilon(mu, delta))


def _log_delta(
    epsilon: NDArray[np.float64], mu: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ln delta and its derivative by epsilon.

    With M the Mills ratio, delta = phi(x - mu/2) (M(x - mu/2) - M(x + mu/2)) at x = epsilon / mu: no e^epsilon.
    """
    x, h = epsilon / mu, mu / 2
    near, far = _mills(x - h), _mills(x + h)
    return np.log((near - far) / sqrt(2 * pi)) - (x - h) ** 2 / 2, -far / (near - far)


def _mills(x: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import erfcx

    return sqrt(pi / 2) * erfcx(x / sqrt(2))
