"""Appendix C of arXiv 2106.03328 by exhaustion: no family with guarantee T has more sets than batch partitioning.

    python results/theorems/necessity.py [--clients 12]

For all N up to --clients, K and T that divide as the paper asks, finds the largest family of sets of K clients whose
multi-round guarantee (equation 5) is T, in two ways, and writes necessity.csv beside this file.

families    every family of K-sets is looked at, where there are at most 20 such sets (a million families). Its
            guarantee is the smallest class of clients with identical, non-zero columns.
structures  every partition of some of the clients into classes of at least T is looked at, and its unions with K
            members are counted: all families with guarantee T are subsets of these.
bound       C(N/T, K/T), which batch partitioning has.

Columns ``beyond`` says that K is above N/2, where the paper makes no claim. Half a minute of one core.
"""

import argparse
from collections.abc import Iterator
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pandas

HERE = Path(__file__).resolve().parent
MOST_SETS = 20


def largest_family(clients: int, k: int, guarantee: int) -> int:
    """The most K-sets in a family whose smallest class of identical non-zero columns has ``guarantee`` clients.

    A client's column is a number: bit s says whether it is in set s. All families are looked at, in parts.
    """
    sets = list(combinations(range(clients), k))
    member = np.array([sum(1 << s for s, chosen in enumerate(sets) if client in chosen) for client in range(clients)])
    best = 0
    for first in range(0, 1 << len(sets), 1 << 16):
        families = np.arange(first, min(first + (1 << 16), 1 << len(sets)))
        columns = families[:, None] & member
        alike = (columns[:, :, None] == columns[:, None, :]).sum(axis=2)
        private = ((alike >= guarantee) | (columns == 0)).all(axis=1)
        if private.any():
            best = max(best, int(np.bitwise_count(families[private]).max()))
    return best


def partitions(total: int, least: int) -> Iterator[tuple[int, ...]]:
    """All ways to write at most ``total`` as a sum of ascending parts of at least ``least``."""
    yield ()
    for first in range(least, total + 1):
        for rest in partitions(total - first, first):
            yield first, *rest


def largest_structure(clients: int, k: int, guarantee: int) -> int:
    """The most unions with K members over all partitions of some clients into classes of at least ``guarantee``."""
    best = 0
    for sizes in partitions(clients, guarantee):
        ways = np.zeros(k + 1, dtype=np.int64)
        ways[0] = 1
        for size in sizes:
            if size <= k:
                ways[size:] += ways[:-size].copy()
        best = max(best, int(ways[k]))
    return best


def rows(most: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for clients in range(2, most + 1):
        for k in range(1, clients):
            for guarantee in (t for t in range(1, k + 1) if k % t == 0 and clients % t == 0):
                few = comb(clients, k) <= MOST_SETS
                found.append({
                    "clients": clients, "k": k, "T": guarantee, "beyond": 2 * k > clients,
                    "families": largest_family(clients, k, guarantee) if few else None,
                    "structures": largest_structure(clients, k, guarantee),
                    "bound": comb(clients // guarantee, k // guarantee),
                })  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=12)
    table = pandas.DataFrame(rows(parser.parse_args().clients))
    table.astype({"families": "Int64"}).to_csv(HERE / "necessity.csv", index=False)


if __name__ == "__main__":
    main()
