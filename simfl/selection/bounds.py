"""Bounds proved about selection: convergence (MR Theorem 2), full rank of the participation (MR Theorem 3)."""

from math import exp, log, log1p

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["convergence_bound", "full_rank_probability"]


def convergence_bound(
    rounds: ArrayLike,
    *,
    cardinality: float,
    clients: int,
    k: int,
    epochs: int,
    smoothness: float,
    convexity: float,
    gradient_variance: ArrayLike,
    gradient_bound: float,
    heterogeneity: float,
    initial_distance: float,
) -> np.ndarray | float:
    """Bound on E[L(x(J))] - L* after J rounds of federated averaging with equal dropout rates.

    rho / (gamma + C/K E J - 1) * (2 (alpha + beta) / mu^2 + gamma/2 |x(0) - x*|^2), with
    alpha = mean sigma_i^2 + 6 rho Gamma + 8 (E-1)^2 G^2, beta = 4 (N-K) E^2 G^2 / (K (N-1)), gamma = max(8 rho/mu, E).

    Args:
        rounds: J, a number or an array; skipped rounds count.
        cardinality: C, mean number of clients in an aggregation, skipped rounds as 0.
        clients: N.
        k: K, clients in an aggregation.
        epochs: E, local steps in a round.
        smoothness: rho, of every local loss.
        convexity: mu > 0, strong convexity of every local loss.
        gradient_variance: sigma_i^2 of the clients' stochastic gradients, a number or shape (clients,).
        gradient_bound: G, root of the bound on the expected squared norm of stochastic gradients.
        heterogeneity: Gamma, optimum of the global loss minus that of the local losses, >= 0.
        initial_distance: |x(0) - x*|.

    Raises:
        ValueError: an argument is out of its range.

    References:
        MR (arXiv 2106.03328) Theorem 2, after Li et al. 2019, Theorem 3.
    """
    if not (1 <= k <= clients and 0 <= cardinality <= k and epochs >= 1 and smoothness >= convexity > 0):
        raise ValueError("needs 1 <= k <= clients, 0 <= cardinality <= k, epochs >= 1, smoothness >= convexity > 0")
    if min(np.min(gradient_variance), gradient_bound, heterogeneity, initial_distance, np.min(rounds)) < 0:
        raise ValueError("variance, gradient bound, heterogeneity, distance and rounds must not be negative")
    squared = gradient_bound**2
    alpha = float(np.mean(gradient_variance)) + 6 * smoothness * heterogeneity + 8 * (epochs - 1) ** 2 * squared
    beta = 4 * (clients - k) * epochs**2 * squared / (k * (clients - 1)) if clients > 1 else 0.0
    gamma = max(8 * smoothness / convexity, epochs)
    steps = gamma + cardinality / k * epochs * np.asarray(rounds, dtype=np.float64) - 1
    bound = smoothness / steps * (2 * (alpha + beta) / convexity**2 + gamma / 2 * initial_distance**2)
    return bound if bound.ndim else float(bound)


def full_rank_probability(n: int, k: float) -> float:
    """Lower bound on the probability that n rounds of independent selection reveal every client's model.

    1 - 2n(1-s)^n - n(n-1)(s^2 + (1-s)^2)^n with s = k/n: the probability that two rows or columns of the n x n
    participation matrix coincide or one is zero. Asymptotic: the paper multiplies the last term by 1 + o(1), taken
    as 1 here, for a fixed s < 1/2. For selection of exactly K clients the paper proves 1 - 2 exp(-c'n) without
    giving c', so there is no number to return.

    Args:
        n: clients, also the number of rounds.
        k: mean number of clients in an aggregation; a client takes part with probability k/n, whatever its dropout.

    Returns:
        The bound, 0 where it says nothing.

    Raises:
        ValueError: not 0 <= k <= n, or n < 1.

    References:
        MR (arXiv 2106.03328) Theorem 3, equation 32, after Jain et al. 2020.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError("needs n >= 1 and 0 <= k <= n")
    s = k / n
    if s in (0.0, 1.0):
        return float(n == 1 and s == 1.0)
    zero = 2 * n * exp(n * log1p(-s))
    same = n * (n - 1) * exp(n * log(s * s + (1 - s) ** 2))
    return max(0.0, 1.0 - zero - same)
