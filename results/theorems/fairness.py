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
from share_limits import at_most, text_floor, uniform_shares

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


def proven_gap(rule: str, availability: Array, k: int) -> float:
    """What the gap does not fall below in the limit; see the head of this file."""
    if rule == "uniform":
        return float(np.ptp(uniform_shares(availability, k)))
    if rule == "fair":
        return text_floor(availability, k)
    ordered, batches = np.sort(availability), len(availability)
    most = [at_most(ordered, size, k) for size in range(1, batches + 1)]
    return max(0.0, *((most[-1] - part) / (batches - size) - part / size for size, part in enumerate(most[:-1], 1)))


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
