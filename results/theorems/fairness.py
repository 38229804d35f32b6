"""Theorem 1 and Remark 4 of arXiv 2106.03328: does the fairness gap of batch partitioning go to 0?

    python results/theorems/fairness.py [--seeds 5]

N = 120 clients, K = 12; a seed draws each client's dropout probability from {0.1, ..., 0.5} ("unequal"), or all have
0.3 ("equal"). Batches are chosen round by round by simfl's rules: ``fair``, a row that contains the least-used client
that can be had (the paper's text), ``least_total``, the available batches of least participation (its authors' code),
and ``uniform``. Writes fairness.csv, a row a seed: the gap (largest less smallest share of rounds that a client took
part in) after some numbers of rounds, and ``proven_gap``, a number that the gap does not fall below in the limit.

A round is played if k = K/T of the B = N/T batches are available. Let L be the l batches of least availability, and U
bound the expected number of batches of L in a round whatever happened before. Then the shares of L are U/l on average
at most, those of the others (k P(played) - U)/(B - l) at least, and by the law of large numbers for bounded martingale
differences the gap does not stay below their difference. Of x available batches in L and y others

* any rule takes at most min(k, x) of L;
* ``fair`` takes one batch by participation and the others uniformly, so at most 1 + (k - 1)(x - 1)/(x + y - 1) of L on
  average, if x > 0;
* ``uniform`` takes batch b with probability k/(x + y) if it is available, which gives its share exactly.

The expectations are sums over the distributions of x and y, and ``proven_gap`` is the largest difference of all l.
"""

from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray

from simfl.core.types import View
from simfl.experiments import runner
from simfl.selection.units.blocks import choose

HERE = Path(__file__).resolve().parent
CLIENTS, K = 120, 12
SIZES = (3, 4, 6)
RULES = ("fair", "least_total", "uniform")
DROPOUTS = ("unequal", "equal")
MARKS = (200, 1000, 6000, 30000)
Array = NDArray[np.float64]


def dropouts(kind: str, seed: int) -> Array:
    """The dropout probability of every client."""
    drawn = np.random.default_rng([seed, 1]).choice([0.1, 0.2, 0.3, 0.4, 0.5], CLIENTS)
    return drawn if kind == "unequal" else np.full(CLIENTS, 0.3)


def counts(availability: Array) -> Array:
    """The distribution of how many of independent batches are available."""
    law = np.ones(1)
    for each in availability:
        law = np.convolve(law, [1 - each, each])
    return law


def uniform_shares(availability: Array, k: int) -> Array:
    """The share of rounds in which each batch is chosen, uniformly."""
    shares = []
    for b, each in enumerate(availability):
        others = counts(np.delete(availability, b))
        there = np.arange(len(others)) + 1
        shares.append(each * np.sum(others * np.where(there >= k, k / there, 0)))
    return np.array(shares)


def proven_gap(rule: str, availability: Array, k: int) -> float:
    """What the gap does not fall below in the limit; see the head of this file."""
    ordered = np.sort(availability)
    if rule == "uniform":
        shares = uniform_shares(ordered, k)
        return float(shares.max() - shares.min())
    bounds = [0.0]
    for least in range(1, len(ordered)):
        low, high = counts(ordered[:least]), counts(ordered[least:])
        x, y = np.arange(len(low))[:, None], np.arange(len(high))[None, :]
        weight = low[:, None] * high[None, :] * (x + y >= k)
        most = np.minimum(k, x + 0 * y)
        if rule == "fair":
            most = np.minimum(most, np.where(x > 0, 1 + (k - 1) * (x - 1) / np.maximum(x + y - 1, 1), 0))
        upper = float((weight * most).sum())
        bounds.append((k * weight.sum() - upper) / (len(ordered) - least) - upper / least)
    return float(max(bounds))


def gaps(rule: str, probabilities: Array, size: int, seed: int) -> dict[str, float]:
    """The gap after MARKS rounds."""
    rng = np.random.default_rng([seed, size, 2])
    participation = np.zeros(CLIENTS, dtype=np.int64)
    table = {}
    for completed in range(1, MARKS[-1] + 1):
        view = View(round=completed - 1, available=rng.random(CLIENTS) >= probabilities, participation=participation)
        participation[choose(view, size, K, rule, rng)] += 1  # type: ignore[arg-type]
        if completed in MARKS:
            table[f"gap_{completed}"] = float(participation.max() - participation.min()) / completed
    return table


def row(rule: str, kind: str, size: int, seed: int) -> dict[str, object]:
    probabilities = dropouts(kind, seed)
    availability = (1 - probabilities).reshape(-1, size).prod(axis=1)
    named = {"rule": rule, "dropouts": kind, "T": size, "seed": seed}
    bound = proven_gap(rule, availability, K // size)
    return named | gaps(rule, probabilities, size, seed) | {"proven_gap": bound, "least_available": availability.min()}


def main() -> None:
    options = runner.parser(__doc__, seeds=5, costs=False).parse_args()
    rows = [
        row(rule, kind, size, seed)
        for rule in RULES
        for kind in DROPOUTS
        for size in SIZES
        for seed in range(options.seeds)
    ]
    table = pandas.DataFrame(rows)
    table.to_csv(HERE / "fairness.csv", index=False, float_format="%.5g")
    print(table.drop(columns="seed").groupby(["rule", "dropouts", "T"]).mean().round(4).to_string())


if __name__ == "__main__":
    main()
