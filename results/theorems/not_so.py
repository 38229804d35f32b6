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

HERE = Path(__file__).resolve().parent
Row = tuple[str, float] | tuple[str, float, float, float]


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


def left_out() -> Iterator[Row]:
    """Thesis, A.8: error of the sum modulo p where one of five leaves a noise out, in Protocol 1 and its variant."""
    n, p = 5, 2**31 - 1
    rng = np.random.default_rng(2)
    for variant in ("Protocol 1", "variant of A.8"):
        masks = rng.integers(0, p, (n, n))
        inputs = rng.integers(0, 1000, n)
        last = -masks.sum(axis=1)  # what i adds of its own: minus its masks, or its share of zero
        messages = [inputs[i] + masks[:, i].sum() + last[i] for i in range(n)]
        yield f"{variant}: error of the sum, all take part", int((sum(messages) - inputs.sum()) % p)
        messages[1] -= masks[0, 1]
        error = int((sum(messages) - inputs.sum()) % p)
        yield f"{variant}: error is off by more than all inputs", float(min(error, p - error) > inputs.sum())


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
    """002: rows of both families at N = 24, T = 4, by enumeration."""
    n, t = 24, 4
    for k in (4, 8, 12):
        starts = range(2 * n // t)
        halves = sum(
            all((b - a) % len(starts) not in (1, len(starts) - 1) for a, b in combinations(row, 2))
            for row in combinations(starts, k // t)
        )
        yield f"half rows for each batch row, K = {k}", halves / comb(n // t, k // t)


def mean_noise() -> Iterator[Row]:
    """Thesis, Protocol 1 and chapter 5: epsilon of a weight of the mean of n models, each with a share of the noise."""
    k, alpha, epsilon = 150, 0.03, 1.0
    for n in (3, 10):
        scale = 2 / (n * k * alpha * epsilon)  # of the Laplace noise that is the sum of the n shares
        moved = 2 / (k * alpha) / n  # a sample moves one of n models by 2 / (k alpha), and their mean by an n-th
        yield f"epsilon stated as 1, n = {n}", moved / (scale / n)
    from sklearn.datasets import load_digits

    lengths = np.linalg.norm(load_digits().data / 16, axis=1)
    yield "digits with norm above the 1 that is assumed, share", float((lengths > 1).mean())
    yield "longest digit", float(lengths.max())


def mask_stability() -> Iterator[Row]:
    """Thesis, Proposition 6: ten clients, six with mean +1 and four with -1, tau = .4, errors as small as you like."""
    rng = np.random.default_rng(4)
    means = np.where(np.arange(10) < 6, 1.0, -1.0)
    for deviation in (0.1, 0.01):
        updates = means + deviation * rng.normal(size=(10_000, 10))
        agreement = np.abs(np.sign(updates).mean(axis=1))
        yield f"share of draws whose mask is below 1, deviation {deviation}", float((agreement < 0.4).mean())
    yield "share of clients with positive mean, above tau = .4", float((means > 0).mean())
    yield "agreement of ten signs, six alike", float(np.abs(np.sign(means).mean()))
    yield "agreement of ten signs, seven alike", abs(7 - 3) / 10


def masked_rate() -> Iterator[Row]:
    """Thesis, Proposition 5: one client, f = w^2 / 2 (L = 1) near w = 1, exact gradients (C as small as you like)."""
    for rate in (0.5, 0.01):
        after = (1 - rate) ** 2 / 2
        yield f"squared gradient, rate {rate}, T = 1", 1.0
        yield f"claimed bound 2 L (f(w_0) - f(w_1)) / T, rate {rate}", 2 * (0.5 - after)


def drift() -> Iterator[Row]:
    """Thesis, Lemma 1: log cosh(w - 1) and log cosh(w + 1) at w = 0, one exact step each."""
    slopes = np.tanh([-1.0, 1.0])
    yield "C (sigma^2 + |grad f|^2) for every C", float(slopes.mean() ** 2)
    yield "|Delta - grad F_1|^2", float((slopes.mean() - slopes[0]) ** 2)


def scaffold_signs() -> Iterator[Row]:
    """Thesis, Algorithm 4: two quadratics, ten local steps, distance from the optimum after 200 rounds."""
    curvature, centre, rate, steps = np.array([1.0, 0.2]), np.array([1.0, -1.0]), 0.1, 10
    optimum = (curvature @ centre) / curvature.sum()
    for name, local, server in (("as printed", -1, -1), ("server's sign turned", -1, 1), ("both turned", 1, 1)):
        w, control = 3.0, np.zeros(2)
        for _ in range(200):
            models = np.full(2, w)
            for _ in range(steps):
                models -= rate * curvature * (models - centre)
                correction = control - control.mean()
                models += rate * correction if local == 1 else -correction
            control = control - control.mean() + (w - models) / (steps * rate)
            w += server * float((models - w).mean())
            if abs(w) > 1e6:
                break
        yield f"{name}: distance from the optimum", min(abs(w - optimum), 1e6)


def summed_minima() -> Iterator[Row]:
    """001, Theorem 2: Gamma = L* - sum of L_i*, for 120 equal clients of least loss 1."""
    yield "Gamma as printed", 1.0 - 120
    yield "Gamma with the mean, as in Li et al. 2019", 0.0


PAIRS_32 = """99.34 99.4 99.23 99.31 98.88 99.3 99.12 99.16 99.17 99.18 89.73 90.07 90.15 90.12 90.06 90.93 89.88 90.22
89.91 90.03 85.92 88.59 85.62 90.02 83.22 85.57 87.06 88.93 85.33 88.04 98.69 98.87 98.67 98.86 97.78 98.85 98.1 98.39
98.52 98.44 96.18 96.78 96.87 97.29 91.28 94.13 95.11 96.56 95.51 97.38"""
PAIRS_B3 = """99.01 98.96 99.1 99.16 98.43 98.55 98.87 98.9 88.61 88.49 89.14 90.52 86.95 87.8 88.1 88.38 98.8 98.92
99.7 99.68 92.17 94.61 94.2 96.04 85.8 86.31 87.3 87.61 81.1 82.28 83.25 83.95"""


def printed_tables() -> Iterator[Row]:
    """Thesis: sentences beside the numbers that it prints itself."""
    for name, numbers in (("Table 3.2", PAIRS_32), ("Table B.3", PAIRS_B3)):
        pairs = np.array(numbers.split(), dtype=float).reshape(-1, 2)
        yield f"{name}: pairs", len(pairs)
        yield f"{name}: pairs in which the mask is behind", int((pairs[:, 1] < pairs[:, 0]).sum())
    yield "Table 4.1, CIFAR-10: lowest client, FedBN", 65.75
    yield "Table 4.1, CIFAR-10: lowest client, FedAvg", 64.9
    yield "Table 4.1, CIFAR-10: lowest client, best of FedLTN", max(59.8, 61.5, 63.0, 64.8, 53.0)
    yield "Table 4.3: FedLTN at 10 % less FedLTN at 90 %", 77.9 - 75.4
    yield "Table B.7: FedAvg at the best rates of Table B.5 (1, .01)", 86.49
    yield "Table B.7: FedAvg at (1, .1)", 88.31


CLAIMS: dict[str, Callable[[], Iterator[Row]]] = {
    each.__name__: each
    for each in (
        collusion_sum, pooled, left_out, family_size, skipped, half_rows, mean_noise, mask_stability, masked_rate,
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
