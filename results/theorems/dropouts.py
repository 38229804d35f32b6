"""Corollary 1 of arXiv 2106.03328, Appendix H: sums of K vectors in rounds that may be skipped.

    python results/theorems/dropouts.py [--rounds 20000] [--out results]

The corollary bounds E|sum of W vectors|^2, where W is K, or 0 with the rounds that are skipped: by
C/K |sum of means|^2 + K C s^2 for any vectors with variances of at most s^2 (equation 52), and by
2 C/K |sum of means|^2 + 2 C s^2 where each mean is conditional on the vectors before (53). Here W is the cardinality of
the rounds of a run of batch partitioning (N = 120, K = 12, T = 6, dropout 0.2), C the expected one of Theorem 1, and
the vectors are drawn in three ways: independently; all with the same error, where equation 52 is an equality; and each
with an error whose size depends on the ones before. Writes dropouts.csv beside this file.
"""

from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray

import simfl
from simfl.core.rng import Streams
from simfl.experiments import runner

HERE = Path(__file__).resolve().parent
SCENARIO = "paper001_privacy"
K, LENGTH, DEVIATION = 12, 30, 1.0
CHANGES = ("selection={name: batch_partition, k: 12, T: 6}", "devices.availability.dropout=0.2", "privacy=none",
           "learning=none")  # fmt: skip

Errors = NDArray[np.float64]


def independent(rng: np.random.Generator, rounds: int) -> Errors:
    """Errors of K vectors, (rounds, K, LENGTH), of variance DEVIATION^2 a vector."""
    return DEVIATION * rng.normal(size=(rounds, K, LENGTH)) / np.sqrt(LENGTH)


def identical(rng: np.random.Generator, rounds: int) -> Errors:
    """The same error in all vectors of a round."""
    return np.repeat(independent(rng, rounds)[:, :1], K, axis=1)


def dependent(rng: np.random.Generator, rounds: int) -> Errors:
    """A vector has an error only where the sum of the errors before it is short: means stay, variances do not."""
    errors = independent(rng, rounds)
    for i in range(1, K):
        before = np.linalg.norm(errors[:, :i].sum(axis=1), axis=1)
        errors[:, i] *= (before < np.sqrt(i) * DEVIATION)[:, None]
    return errors


DEPENDENCE = {"independent": independent, "identical": identical, "dependent": dependent}


def bounds(cardinality: float, means: NDArray[np.float64]) -> tuple[float, float]:
    """Right-hand sides of equations 52 and 53; means (K, LENGTH)."""
    squared = float(np.square(means.sum(axis=0)).sum())
    share = cardinality / K
    return share * squared + K * cardinality * DEVIATION**2, 2 * share * squared + 2 * cardinality * DEVIATION**2


def main() -> None:
    parser = runner.parser(__doc__, costs=False)
    parser.add_argument("--rounds", type=int, default=20_000)
    options = parser.parse_args()
    result = simfl.run(simfl.load(SCENARIO, [*CHANGES, f"training.rounds={options.rounds}"]), out=options.out)
    happens = result.rounds.cardinality.to_numpy() == K
    expected = result.summary["expected_cardinality"]
    streams = Streams(0)
    rows = []
    for length in (0.0, 1.0):
        means = length * streams("dropouts/means").normal(size=(K, LENGTH)) / np.sqrt(LENGTH)
        for name, draw in DEPENDENCE.items():
            errors = draw(streams(f"dropouts/{name}"), options.rounds)
            squared = happens * np.square((means + errors).sum(axis=1)).sum(axis=1)
            any_vectors, ordered = bounds(expected, means)
            rows.append({"means": length, "errors": name, "rounds": options.rounds, "cardinality": K * happens.mean(),
                         "expected_cardinality": expected, "measured": squared.mean(),
                         "standard_error": squared.std() / np.sqrt(options.rounds),
                         "equation_52": any_vectors,
                         "equation_53": None if name == "identical" else ordered})  # fmt: skip
    pandas.DataFrame(rows).to_csv(HERE / "dropouts.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
