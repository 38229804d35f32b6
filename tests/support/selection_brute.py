"""Families and laws of selection by plain enumeration, written without simfl's own counting."""

from itertools import combinations

import numpy as np


def units_of(name, n, k, t):
    """The units of a policy's family as sets of clients, and how many make a row."""
    if name == "half_partition":
        h, m = t // 2, 2 * n // t
        return [frozenset(c % n for c in range(s * h, s * h + t)) for s in range(m)], k // t
    size = {"random": 1, "weighted": 1, "partition": k, "batch_partition": t}[name]
    return [frozenset(range(b, b + size)) for b in range(0, n, size)], k // size


def family(name, n, k, t):
    """All rows as tuples of clients, ascending; rows of different units count separately."""
    if name in ("bernoulli", "all"):
        return [c for size in range(n + 1) for c in combinations(range(n), size)]
    units, need = units_of(name, n, k, t)
    rows = (frozenset().union(*some) for some in combinations(units, need))
    return [tuple(sorted(row)) for row in rows if len(row) == k]


def law(name, n, k, t, mode, view):
    """Probability of each row of clients under a view, dict; empty where no row is available."""
    rows = [row for row in family(name, n, k, t) if view.available[list(row)].all()]
    if not rows:
        return {}
    if mode == "uniform":
        share = dict.fromkeys(rows, 0.0)
        for row in rows:
            share[row] += 1 / len(rows)
        return share
    covered = sorted(set().union(*rows))
    least = min(view.participation[c] for c in covered)
    tied = [c for c in covered if view.participation[c] == least]
    share = dict.fromkeys(rows, 0.0)
    for client in tied:
        holding = [row for row in rows if client in row]
        for row in holding:
            share[row] += 1 / len(tied) / len(holding)
    return {row: p for row, p in share.items() if p > 0}


def least_total(name, n, k, t, view):
    """The available rows of least summed participation."""
    rows = {row for row in family(name, n, k, t) if view.available[list(row)].all()}
    total = {row: int(np.sum(view.participation[list(row)])) for row in rows}
    return {row for row in rows if total[row] == min(total.values())}
