"""Theorem 3 of arXiv 2106.03328: when do randomly selected clients' sums reveal every single update?

    python results/theorems/full_rank.py [--draws 1000]

Draws participation matrices of the two schemes of Appendix G.1, K clients a round uniformly and every client with
probability K / N, and finds, modulo a large prime, the first round after which the matrix has full column rank: from
then on the server can solve for every client. Writes full_rank.csv beside this file: how many draws are of full rank
after N rounds (with a 95 % Wilson interval), the theorem's lower bound of that probability (equation 32 without its
factor 1 + o(1); equation 31 names no constant), and the rounds that half and 95 % of the draws need. Rounds that are
skipped are not counted. Two minutes of one core.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy.stats import binomtest

from simfl.core.rng import Streams
from simfl.selection.theory.families import full_rank_probability

HERE = Path(__file__).resolve().parent
SIZES = ((10, 2), (20, 4), (40, 8), (40, 4), (60, 12), (120, 12), (120, 24))
"""(N, K); (40, 8) is the setting of Figure 8, (120, 12) that of the other figures."""
MORE = 40
"""Rounds beyond N that are drawn."""
PRIME = 2**31 - 1

Matrices = NDArray[np.int64]


def uniform(rng: np.random.Generator, draws: int, rounds: int, clients: int, k: int) -> Matrices:
    """K clients in every round, (draws, rounds, clients) of 0 and 1."""
    ranks = rng.random((draws, rounds, clients)).argsort(axis=2).argsort(axis=2)
    return (ranks < k).astype(np.int64)


def bernoulli(rng: np.random.Generator, draws: int, rounds: int, clients: int, k: int) -> Matrices:
    """Every client with probability K / N, independently."""
    return (rng.random((draws, rounds, clients)) < k / clients).astype(np.int64)


SCHEMES = {"uniform": uniform, "bernoulli": bernoulli}


def ranks(matrices: Matrices) -> NDArray[np.int64]:
    """Rank modulo PRIME of the first 1, 2, ... rounds of (draws, rounds, clients), (draws, rounds).

    Every round is reduced by those before it; where something is left, it becomes a pivot row, and its first non-zero
    client is removed from all later rounds.
    """
    rest = np.mod(matrices, PRIME)
    draws, rounds, _ = rest.shape
    rank = np.zeros((draws, rounds), dtype=np.int64)
    rows = np.arange(draws)
    for t in range(rounds):
        row = rest[:, t]
        column = (row != 0).argmax(axis=1)
        pivot = row[rows, column]
        rank[:, t] = pivot != 0
        inverse = _inverses(np.where(pivot == 0, 1, pivot))
        factor = rest[rows, t + 1 :, column] * inverse[:, None] % PRIME  # 0 where nothing is left of the row
        rest[:, t + 1 :] = (rest[:, t + 1 :] - factor[:, :, None] * row[:, None]) % PRIME
    return rank.cumsum(axis=1)


def _inverses(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.array([pow(value, -1, PRIME) for value in values.tolist()], dtype=np.int64)


def row(scheme: str, clients: int, k: int, draws: int) -> dict[str, object]:
    """One scheme and size."""
    rng = Streams(0)(f"{scheme} {clients} {k}")
    parts = [SCHEMES[scheme](rng, min(50, draws - i), clients + MORE, clients, k) for i in range(0, draws, 50)]
    full = np.concatenate([ranks(part) for part in parts]) == clients
    first = np.where(full.any(axis=1), full.argmax(axis=1) + 1, clients + MORE + 1)
    after = int(full[:, clients - 1].sum())
    interval = binomtest(after, draws).proportion_ci(method="wilson")
    return {"scheme": scheme, "clients": clients, "k": k, "draws": draws, "full_after_n": after / draws,
            "low": interval.low, "high": interval.high, "bound": full_rank_probability(clients, k),
            "rounds_half": int(np.median(first)),
            "rounds_95": int(np.quantile(first, 0.95, method="higher"))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    rows = [row(scheme, *size, options.draws) for scheme in SCHEMES for size in SIZES]
    pandas.DataFrame(rows).to_csv(HERE / "full_rank.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
