"""The fairness gap of Theorem 1 and Remark 4 of arXiv 2106.03328 by selection rule, and what it tends to.

    python results/theorems/fairness_limits.py [--seeds 5]

A simulation that does not use simfl: N = 120, K = 12, batches of T = 3, 4 and 6 clients, three rules

    text         Algorithm 2 with lambda = 1: a row uniformly among the available ones that include a least-used client
                 (of an available batch: the text does not say what happens if its batch is not)
    least_total  the authors' public code: the K / T available batches of least participation, ties at random
    uniform      Algorithm 2 with lambda = 0: a row uniformly among the available ones

with dropout probabilities that are all 0.3, or drawn from {0.1, ..., 0.5} for every seed. Prints the means and ranges
over the seeds for unequal dropout, and writes fairness_limits.csv beside this file, a row a rule, seed and number of
rounds: ``gap``, the fairness gap after so many rounds; ``limit``, what it tends to, by formula, where there is one
(uniform: each batch's expected share; least_total: the shares of least sum of squares that any rule can give);
``floor``, a number that it does not stay below, which is the limit where that is known; ``least``, the least limit that
any rule can have. A minute of one core.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
from numpy.typing import NDArray
from share_limits import Numbers, least_square_shares, text_floor, uniform_shares

HERE = Path(__file__).resolve().parent
N, K, EQUAL, DRAWN = 120, 12, 0.3, (0.1, 0.2, 0.3, 0.4, 0.5)
MARKS = (200, 1000, 6000, 30_000)
Rule = Callable[[NDArray[np.intp], Numbers, int, np.random.Generator], NDArray[np.intp]]


def text(usable: NDArray[np.intp], used: Numbers, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """One of the least-used available batches, and any others."""
    least = usable[used[usable] == used[usable].min()]
    first = least[rng.integers(len(least))]
    return np.append(rng.permutation(usable[usable != first])[: k - 1], first)


def least_total(usable: NDArray[np.intp], used: Numbers, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The k available batches of least participation."""
    mixed = rng.permutation(usable)
    return mixed[np.argsort(used[mixed], kind="stable")[:k]]


def uniform(usable: NDArray[np.intp], used: Numbers, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Any k available batches."""
    return rng.permutation(usable)[:k]


RULES: dict[str, Rule] = {"text": text, "least_total": least_total, "uniform": uniform}


def gaps(
    rule: Rule, dropout: Numbers, t: int, k: int, marks: tuple[int, ...], rng: np.random.Generator
) -> dict[int, float]:
    """The fairness gap after some numbers of rounds of k batches of t: shares of all rounds, as the paper has it."""
    used, found = np.zeros(len(dropout) // t), {}
    for done in range(1, marks[-1] + 1):
        usable = np.flatnonzero((rng.random(len(dropout)) >= dropout).reshape(-1, t).all(axis=1))
        if len(usable) >= k:
            used[rule(usable, used, k, rng)] += 1
        if done in marks:
            found[done] = float(used.max() - used.min()) / done
    return found


def rows_of(seed: int, t: int, dropouts: str) -> list[dict[str, object]]:
    """The rows of one seed."""
    rng = np.random.default_rng([seed, t, dropouts == "equal"])
    dropout = np.full(N, EQUAL) if dropouts == "equal" else rng.choice(DRAWN, N)
    available = (1 - dropout).reshape(-1, t).prod(axis=1)
    least = float(np.ptp(least_square_shares(available, K // t)))
    limits = {"least_total": least, "uniform": float(np.ptp(uniform_shares(available, K // t)))}
    if dropouts == "equal":
        limits["text"] = 0.0
    floors = {"text": text_floor(available, K // t)} | limits
    named = {"dropouts": dropouts, "T": t, "seed": seed}
    return [
        named
        | {"rule": name, "rounds": done, "gap": gap, "limit": limits.get(name), "floor": floors[name], "least": least}
        for name, rule in RULES.items()
        for done, gap in gaps(rule, dropout, t, K // t, MARKS, rng).items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows = [
        row
        for dropouts in ("equal", "unequal")
        for t in (3, 4, 6)
        for seed in range(options.seeds)
        for row in rows_of(seed, t, dropouts)
    ]
    table = pandas.DataFrame(rows)[["rule", "dropouts", "T", "seed", "rounds", "gap", "limit", "floor", "least"]]
    last = table[(table.dropouts == "unequal") & (table["rounds"] == MARKS[-1])].round(4)  # as in the file
    print(last.groupby(["rule", "T"])[["gap", "floor", "least"]].agg(["mean", "min", "max"]).round(3).to_string())
    table.sort_values(["dropouts", "T", "rule", "rounds", "seed"]).to_csv(
        HERE / "fairness_limits.csv", index=False, float_format="%.4f"
    )


if __name__ == "__main__":
    main()
