"""Selections per second of every policy and mode.

    python benchmarks/selection.py [--seconds 0.5] [--only half]

Each line is timed on the same views (dropout 0.3 and none, participation 0..49); ``x random`` is its time over that of
``random`` in the same block, all blocks interleaved in one process so that a busy machine hits them alike.
"""

import argparse
from time import perf_counter

import numpy as np

from simfl.core.types import View
from simfl.selection.base import POLICIES

VIEWS = 8
REPEATS = 5


def choices(k):
    """(label, policy) of every policy and mode."""
    yield "all", POLICIES["all"](k=k)
    yield "random", POLICIES["random"](k=k)
    yield "bernoulli", POLICIES["bernoulli"](k=k, probability=1e-2)
    yield "weighted", POLICIES["weighted"](k=k)
    for mode in ("uniform", "fair", "least_total"):
        yield f"partition {mode}", POLICIES["partition"](k=k, mode=mode)
        for name in ("batch_partition", "half_partition"):
            for T in (T for T in (2, 4, 10) if k % T == 0):
                yield f"{name} T={T} {mode}", POLICIES[name](k=k, T=T, mode=mode)


def measure(clients, k, dropout, seconds, only):
    rng = np.random.default_rng(0)
    views = [View(t, rng.random(clients) >= dropout, rng.integers(0, 50, clients)) for t in range(VIEWS)]
    policies = {label: policy for label, policy in choices(k) if label == "random" or only in label}
    best = dict.fromkeys(policies, np.inf)
    skipped = {}
    for policy in policies.values():  # the first call imports scipy where it is needed
        policy.select(views[0], policy.k, rng)
    for _ in range(REPEATS):
        for label, policy in policies.items():
            count = skips = 0
            start = perf_counter()
            while (spent := perf_counter() - start) < seconds / REPEATS or count < 3:
                units = policy.select(views[count % VIEWS], policy.k, rng)
                skips += units.size == 0
                count += 1
            best[label] = min(best[label], spent / count)
            skipped[label] = skips / count
    print(f"\nN = {clients:,}  K = {k:,}  dropout {dropout}")
    print(f"{'policy':38}{'ms':>10}{'selections/s':>14}{'x random':>10}{'skipped':>9}")
    for label, spent in best.items():
        ratio = spent / best["random"]
        print(f"{label:38}{spent * 1e3:10.3f}{1 / spent:14,.0f}{ratio:10.1f}{skipped[label]:9.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each line")
    parser.add_argument("--only", default="", help="part of a label")
    arguments = parser.parse_args()
    for clients, k in ((120, 12), (10**4, 100), (10**6, 1000)):
        for dropout in (0.3, 0.0):
            measure(clients, k, dropout, arguments.seconds, arguments.only)


if __name__ == "__main__":
    main()
