"""Seconds that the multi-round privacy metrics take.

    python benchmarks/privacy.py [--rounds 200] [--seed 0] [--large]

The complete three-metric trace of a run with N = 120, K = 12 for cohorts of every kind that the policies draw (drawn
here by a few lines, all clients available), then the metrics of many clients. Seconds are of processor time, one
thread, and of the wall clock; ``exact`` is the share of rounds whose weak metric is known exactly. At the end of a
line stand the rank and the strong, semi-strong and weak (lower, upper) guarantees after the last round, nan where
beyond the budget. ``--large`` adds the strong metric for 10^5 clients and 10^4 rounds.
"""

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from time import perf_counter, process_time  # noqa: E402

import numpy as np  # noqa: E402
from scipy.sparse import csr_array  # noqa: E402

from simfl.privacy.multiround.matrix_metrics import multi_round, trace  # noqa: E402

KINDS = ("random", "batch:12", "batch:6", "batch:4", "batch:3", "batch:2", "half:2", "half:4", "stale:1", "stale:4")


def cohorts(kind, n, k, rounds, rng):
    """Participation rows; ``kind`` is random, batch:T, half:T or stale:T (batches with weights 1 / (1 + staleness))."""
    name, _, unit = kind.partition(":")
    unit = int(unit or 1)
    rows, weights = [], []
    for _ in range(rounds):
        if name == "half":
            m, starts = 2 * n // unit, k // unit
            gaps = np.sort(rng.choice(m - starts - 1, starts - 1, replace=False)) + np.arange(starts - 1) + 2
            first = (np.append(0, gaps) + rng.integers(m)) % m
            units, width = np.append(first, (first + 1) % m), unit // 2
        else:
            units, width = rng.choice(n // unit, k // unit, replace=False), unit
        rows.append((units[:, None] * width + np.arange(width)).ravel())
        late = rng.integers(0, 11, len(units)) if name == "stale" else np.zeros(len(units))
        weights.append(np.repeat(1 / (1 + late), width))
    pointers = np.arange(rounds + 1) * k
    return csr_array((np.concatenate(weights), np.concatenate(rows), pointers), shape=(rounds, n))


def measured(function, *arguments):
    wall, cpu = perf_counter(), process_time()
    result = function(*arguments)
    return result, process_time() - cpu, perf_counter() - wall


def show(label, P, every=1):
    columns, cpu, wall = measured(trace, P, every)
    due = ~np.isnan(columns.weak_lower)
    exact = (columns.weak_lower[due] == columns.weak_upper[due]).mean()
    end = [getattr(columns, name)[-1] for name in ("rank", "strong", "semi_strong", "weak_lower", "weak_upper")]
    shown = " ".join(f"{value:g}" for value in end)
    print(f"{label:<34}{cpu:>8.2f} s{wall:>8.2f} s   exact {exact:4.0%}   {shown}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    multi_round(np.eye(3))
    trace(cohorts("random", 12, 4, 6, rng))  # imports
    print(f"{'trace of every round':<34}{'processor':>10}{'wall':>10}")
    for kind in KINDS:
        show(f"N=120 K=12 {kind}", cohorts(kind, 120, 12, arguments.rounds, rng))
    show("N=300 K=20 random, every 10", cohorts("random", 300, 20, arguments.rounds, rng), 10)
    show("N=1000 K=50 random, last only", cohorts("random", 1000, 50, arguments.rounds, rng), 0)
    show("N=1000 K=50 batch:10, every 10", cohorts("batch:10", 1000, 50, arguments.rounds, rng), 10)
    if arguments.large:
        for kind in ("random", "batch:100"):
            show(f"N=10^5 K=1000 J=10^4 {kind}", cohorts(kind, 10**5, 1000, 10**4, rng), 0)


if __name__ == "__main__":
    main()
