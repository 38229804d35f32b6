"""Theorem 2 of Multi-RoundSecAgg (arXiv 2106.03328): its bound."""

from pathlib import Path

import numpy as np
from convex import Constants, Task, constants
from numpy.typing import ArrayLike
from schemes import SCENARIOS

from simfl.api.result_objects import Result
from simfl.core.rng import Streams
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = SCENARIOS / "paper001_convergence.yaml"


def known(scenario: Scenario) -> Constants:
    """The constants of a scenario's clients."""
    learner = scenario.learning.build(scenario, Streams(scenario.seed))
    data, local = learner.data, scenario.training
    task = Task(data.x_train.astype(np.float64), data.y_train, data.classes, local.weight_decay)
    parts = [learner.partition[client] for client in range(scenario.clients)]
    return constants(task, parts, local.batch_size, learner.initial())


def rate(found: Constants) -> dict[str, float]:
    """The learning rate of the theorem, 2 / (mu (gamma + t)), for one local step a round."""
    gamma = max(8 * found.smoothness / found.convexity, 1)
    return {"training.learning_rate": 2 / (found.convexity * gamma), "training.half_at": gamma}


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
    alpha = (
        float(np.mean(np.asarray(gradient_variance, dtype=np.float64)))
        + 6 * smoothness * heterogeneity
        + 8 * (epochs - 1) ** 2 * squared
    )
    beta = 4 * (clients - k) * epochs**2 * squared / (k * (clients - 1)) if clients > 1 else 0.0
    gamma = max(8 * smoothness / convexity, epochs)
    steps = gamma + cardinality / k * epochs * np.asarray(rounds, dtype=np.float64) - 1
    bound = smoothness / steps * (2 * (alpha + beta) / convexity**2 + gamma / 2 * initial_distance**2)
    return bound if bound.ndim else float(bound)


def bound(found: Constants, result: Result, rounds: np.ndarray) -> np.ndarray:
    """The theorem's bound after these numbers of rounds, at the cardinality that Theorem 1 expects."""
    scenario = result.scenario
    return convergence_bound(
        rounds,
        cardinality=min(result.summary["expected_cardinality"], scenario.selection.k),  # it may be 12 and a rounding
        clients=scenario.clients,
        k=scenario.selection.k,
        epochs=scenario.training.local_steps,
        smoothness=found.smoothness,
        convexity=found.convexity,
        gradient_variance=found.gradient_variance,
        gradient_bound=found.gradient_bound,
        heterogeneity=max(found.heterogeneity, 0.0),
        initial_distance=found.initial_distance,
    )
