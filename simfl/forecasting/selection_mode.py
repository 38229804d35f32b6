"""Whether a policy of units prefers the least-used client: which of two kinds of invented logs a log is like.

Logs of as many rounds and units are simulated under both modes, with availabilities drawn from a wide prior, and
compared with the log in two numbers: how many units have been used less than the least-used one of a sum, in the mean,
and how widely units differ in use. Both are taken to be normal (a synthetic likelihood: Wood, Nature 466, 2010).
"""

import numpy as np
from numpy.typing import NDArray

LOGS = 300
"""Invented for each mode."""
MEAN = 0.3, 0.97
"""Range of the mean availability of a log's units."""
STRENGTHS = np.array([2.0, 4.0, 8.0, 16.0, 64.0])
"""How alike they are: of a Beta distribution."""


def prefers_least_used(units: NDArray[np.bool_], sums: int) -> bool:
    """Whether logs of ``mode=fair`` are the likelier ones.

    Args:
        units: which take part in each sum, (J, U).
        sums: units selected in a round.
    """
    rows = units[units.any(axis=1)]
    failing = 1 - float(rows.sum(axis=1).mean()) / sums
    seen = _numbers(rows[None])[0]
    rng = np.random.Generator(np.random.Philox(key=rows.shape))
    likelihoods = []
    for fair in (True, False):
        values = _numbers(_invent(len(rows), rows.shape[1], sums, failing, fair, rng))
        spread = np.cov(values.T) + 1e-9 * np.eye(2)
        off = seen - values.mean(axis=0)
        likelihoods.append(-float(off @ np.linalg.solve(spread, off)) - float(np.linalg.slogdet(spread)[1]))
    return likelihoods[0] > likelihoods[1]


def _invent(
    rounds: int, units: int, sums: int, failing: float, fair: bool, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Logs of rounds with enough available units, (LOGS, rounds, units)."""
    mean, strength = rng.uniform(*MEAN, (LOGS, 1)), rng.choice(STRENGTHS, (LOGS, 1))
    rates = rng.beta(mean * strength, (1 - mean) * strength, (LOGS, units))
    rows = np.zeros((LOGS, rounds, units), dtype=bool)
    used = np.zeros((LOGS, units), dtype=np.int64)
    usual = np.argsort(np.argsort(-rates, axis=1), axis=1) < sums  # who fills rounds up that no log would have
    for t in range(rounds):
        there = rng.random(rates.shape) < rates
        there |= usual & (there.sum(axis=1, keepdims=True) < sums)
        score = np.where(there, rng.random(rates.shape), -1.0)
        if fair:
            least = np.where(there, used + rng.random(rates.shape), np.inf).argmin(axis=1)
            score[np.arange(LOGS), least] = 2.0
        chosen = np.argsort(-score, axis=1)[:, :sums]
        row = np.zeros_like(there)
        np.put_along_axis(row, chosen, True, axis=1)
        row &= there & (rng.random(rates.shape) >= failing)
        rows[:, t] = row
        used += row
    return rows


def _numbers(rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What logs, (logs, J, U), are compared in, (logs, 2)."""
    counts = np.cumsum(rows, axis=1, dtype=np.int64) - rows
    least = np.where(rows, counts, len(rows[0]) + 1).min(axis=2, keepdims=True)
    lesser = (counts < least).sum(axis=2) + (counts == least).sum(axis=2) / 2
    some = rows.any(axis=2)
    used = rows.sum(axis=1)
    place = (lesser * some).sum(axis=1) / np.maximum(some.sum(axis=1), 1)
    return np.stack([place, np.log(used.var(axis=1) + 0.1)], axis=1)
