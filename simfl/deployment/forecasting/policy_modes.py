"""How a policy of units picks among those that are available: by logs that are simulated under each mode."""

import numpy as np

from simfl.plugins import Bools, Floats, Integers

LOGS = 300
"""Invented for each mode, of the log's last rounds."""
LATEST = 200
MEAN = 0.3, 0.97
"""Range of the mean availability of a log's units."""

STRENGTHS = np.array([2.0, 4.0, 8.0, 16.0, 64.0])
"""How alike they are: of a Beta distribution."""


def modes(units: Bools, sums: int, prior: dict[str, float], circle: bool = False) -> dict[str, float]:
    """How a policy of units picks among the available ones: the probability of each mode of a prior.

    Logs of as many rounds and units are simulated under each mode, with availabilities drawn from a wide prior, and
    compared with the log in three numbers: how many units have been used less than the least-used one of a sum, and
    than the most-used one, in the mean, and how widely units differ in use. They are taken to be normal (a synthetic
    likelihood: Wood, Nature 466, 2010).

    Args:
        units: which take part in each sum, (J, U).
        sums: units selected in a round; where it is one, ``least_total`` is ``fair``.
        circle: in pairs of neighbours.
    """
    rows = units[units.any(axis=1)][-LATEST:]
    failing = 1 - float(rows.sum(axis=1).mean()) / sums
    seen = _numbers(rows[None])[0]
    rng = np.random.Generator(np.random.Philox(key=rows.shape))
    logs = {}
    for mode, chance in prior.items():
        if mode == "least_total" and sums == 1 and "fair" in prior:
            continue
        values = _numbers(_invent(len(rows), rows.shape[1], sums, failing, mode, circle, rng))
        spread = np.cov(values.T) + 1e-6 * np.eye(3)
        off = seen - values.mean(axis=0)
        fit = -float(off @ np.linalg.solve(spread, off)) - float(np.linalg.slogdet(spread)[1])
        logs[mode] = fit / 2 + float(np.log(chance))
    most = max(logs.values())
    total = sum(np.exp(log - most) for log in logs.values())
    return {mode: float(np.exp(log - most) / total) for mode, log in logs.items()}


def _invent(
    rounds: int, units: int, sums: int, failing: float, mode: str, circle: bool, rng: np.random.Generator
) -> Bools:
    """Logs of rounds with enough available units, (LOGS, rounds, units)."""
    mean, strength = rng.uniform(*MEAN, (LOGS, 1)), rng.choice(STRENGTHS, (LOGS, 1))
    rates = rng.beta(mean * strength, (1 - mean) * strength, (LOGS, units))
    rows = np.zeros((LOGS, rounds, units), dtype=bool)
    used = np.zeros((LOGS, units), dtype=np.int64)
    usual = np.argsort(np.argsort(-rates, axis=1), axis=1) < sums  # who fills rounds up that no log would have
    every = np.arange(LOGS)
    for t in range(rounds):
        there = rng.random(rates.shape) < rates
        there |= usual & (there.sum(axis=1, keepdims=True) < sums)
        if circle:
            chosen = _invent_pairs(there, used, sums // 2, mode, rng)
        else:
            tie = rng.random(rates.shape)
            score = np.where(there, tie if mode != "least_total" else rounds + tie - used, -1.0)
            if mode == "fair":
                score[every, np.where(there, used + rng.random(rates.shape), np.inf).argmin(axis=1)] = 2.0
            chosen = np.argsort(np.argsort(-score, axis=1), axis=1) < sums
        row = chosen & there & (rng.random(rates.shape) >= failing)
        rows[:, t] = row
        used += row
    return rows


def _invent_pairs(there: Bools, used: Integers, need: int, mode: str, rng: np.random.Generator) -> Bools:
    """Pairs of neighbours on the circle, drawn one after the other, bool (LOGS, units)."""
    chosen, every = np.zeros_like(there), np.arange(len(there))
    for pair in range(need):
        free = there & ~chosen
        start = free & np.roll(free, -1, axis=1)
        score = np.where(start, rng.random(there.shape), -1.0)
        if mode == "fair" and pair == 0:
            cover = start | np.roll(start, 1, axis=1)
            least = np.where(cover, used + rng.random(there.shape), np.inf).argmin(axis=1)
            for place in (least, (least - 1) % there.shape[1]):
                score[every, place] += 2.0 * start[every, place]
        first = score.argmax(axis=1)
        some = start[every, first]
        chosen[every, first] |= some
        chosen[every, (first + 1) % there.shape[1]] |= some
    return chosen


def _numbers(rows: Bools) -> Floats:
    """What logs, (logs, J, U), are compared in, (logs, 3)."""
    counts = np.cumsum(rows, axis=1, dtype=np.int64) - rows
    some = rows.any(axis=2)
    mean = []
    for extreme in (np.where(rows, counts, len(rows[0]) + 1).min(axis=2, keepdims=True),
                    np.where(rows, counts, -1).max(axis=2, keepdims=True)):  # fmt: skip
        lesser = (counts < extreme).sum(axis=2) + (counts == extreme).sum(axis=2) / 2
        mean.append((lesser * some).sum(axis=1) / np.maximum(some.sum(axis=1), 1))
    return np.stack([*mean, np.log(rows.sum(axis=1).var(axis=1) + 0.1)], axis=1)
