"""Claims of the four sources that are not so, each by a few lines of numpy that use nothing of simfl.

    python results/theorems/not_so.py [CLAIM ...]

prints the rows of these claims (docs/papers/not-so.md says what they are), and without an argument writes all to
not_so.csv beside this file: claim, quantity, value, and the 95 % interval of what was drawn. Half a minute of one core.
"""

import argparse
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt
from pathlib import Path

import numpy as np
import pandas
from not_so_thesis import Row, drift, mask_stability, masked_rate, mean_noise, printed_tables, scaffold_signs

HERE = Path(__file__).resolve().parent


def interval(name: str, draws: np.ndarray) -> Row:
    """A mean with its 95 % interval."""
    half = 1.96 * draws.std(ddof=1) / sqrt(len(draws))
    return name, float(draws.mean()), float(draws.mean() - half), float(draws.mean() + half)


def collusion_sum() -> Iterator[Row]:
    """Thesis, Definition 2 and A.7: the error that n - 1 colluders leave, and the inequality it rests on."""
    left = [Fraction(n * n - n + 1, n) > n for n in range(2, 5001)]
    yield "n of 2 ... 5,000 with (n^2 - n + 1) / n > n", sum(left)
    m = 99
    yield "claimed E|sum of 99 Laplace variables|, in scales", m
    yield "the same, by its formula 2 m C(2m, m) / 4^m", 2 * m * comb(2 * m, m) / 4**m
    rng = np.random.default_rng(0)
    yield interval("the same, drawn 20,000 times", np.abs(rng.laplace(size=(20_000, m)).sum(axis=1)))


def pooled() -> Iterator[Row]:
    """Thesis, 2.3: what is left for the honest one of 100 when the others tell one another what they drew and took."""
    n, rounds, others = 100, 20_000, 2 * 99
    rng = np.random.default_rng(1)
    left = {"claimed: naive": np.empty(rounds), "pooled": np.empty(rounds)}
    for t in range(rounds):
        noise = np.subtract(*rng.gamma(1 / n, size=(2, 2, others)))  # two to choose from, of the honest one and for it
        taken = np.where(rng.integers(0, 2, others), *noise)
        between = np.subtract(*rng.gamma((n - 1) * (n - 2) / n, size=2))  # of the colluders for one another
        left["claimed: naive"][t] = taken.sum() + between
        left["pooled"][t] = (taken - noise.mean(axis=0)).sum()
    for name, residual in left.items():
        yield interval(f"{name}, residual variance in those of one Laplace variable", residual**2 / 2)
    yield "claimed: n - 1", n - 1
    yield "pooled, by formula (n - 1) / n", (n - 1) / n


def family_size() -> Iterator[Row]:
    """001, Table 1."""
    yield "C(40, 4)", comb(40, 4)
    yield "printed", 91_389


def skipped() -> Iterator[Row]:
    """001, Table 3, T = 6: rounds of 1,000 that have no row, over draws of the dropout probabilities."""
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(1000):
        law = np.ones(1)
        for chance in (1 - rng.integers(1, 6, (20, 6)) / 10).prod(axis=1):
            law = np.convolve(law, [1 - chance, chance])
        draws.append(rng.binomial(1000, law[:2].sum()))
    low, high = np.quantile(draws, (0.001, 0.999))
    yield "T = 6 skips, mean and central 99.8 % of draws", float(np.mean(draws)), low, high
    runs = pandas.read_csv(HERE.parent / "paper001" / "published_runs.csv")
    runs = runs[(runs.data == "CIFAR-10") & (runs.clients == 120) & (runs.k == 12)]
    stored = runs[runs.scheme == "batch T=6"].unchanged
    yield "stored runs of T = 6, fewest unchanged rounds", float(stored.min())
    yield "stored runs of T = 6, most unchanged rounds", float(stored.max())


def half_rows() -> Iterator[Row]:
    """002: rows of both families, in its own example and at N = 24, T = 4, by enumeration."""
    for n, k, t in ((6, 4, 2), (24, 4, 4), (24, 8, 4), (24, 12, 4)):
        starts = range(2 * n // t)
        halves = sum(
            all((b - a) % len(starts) not in (1, len(starts) - 1) for a, b in combinations(row, 2))
            for row in combinations(starts, k // t)
        )
        yield f"half rows for each batch row, N = {n}, K = {k}, T = {t}", halves / comb(n // t, k // t)


def summed_minima() -> Iterator[Row]:
    """001, Theorem 2: Gamma = L* - sum of L_i*, for 120 equal clients of least loss 1."""
    yield "Gamma as printed", 1.0 - 120
    yield "Gamma with the mean, as in Li et al. 2019", 0.0


CLAIMS: dict[str, Callable[[], Iterator[Row]]] = {
    each.__name__: each
    for each in (
        collusion_sum, pooled, family_size, skipped, half_rows, mean_noise, mask_stability, masked_rate,
        drift, scaffold_signs, summed_minima, printed_tables,
    )
}  # fmt: skip


def rows(names: list[str]) -> pandas.DataFrame:
    """The rows of some claims."""
    found = [(name, *row, *(None, None))[:5] for name in names for row in CLAIMS[name]()]
    return pandas.DataFrame(found, columns=["claim", "quantity", "value", "low", "high"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", nargs="*", choices=[*CLAIMS, []], metavar="CLAIM", help=", ".join(CLAIMS))
    chosen = parser.parse_args().claims
    table = rows(chosen or list(CLAIMS))
    print(table.to_string(index=False))
    if not chosen:
        table.to_csv(HERE / "not_so.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
