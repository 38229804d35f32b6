"""Formulas of fairness_limits.py: what shares of the rounds selection rules give batches, and can give them.

Batches are available independently, ``available`` says how likely; a round with fewer than k of them is skipped.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def counts(available: Numbers) -> Numbers:
    """How likely 0, 1, 2 ... of these batches are available at once."""
    law = np.ones(1)
    for chance in available:
        law = np.convolve(law, [1 - chance, chance])
    return law


def uniform_shares(available: Numbers, k: int) -> Numbers:
    """Each batch's expected share of rounds under ``uniform``, by how likely each is available."""
    shares = []
    for b, chance in enumerate(available):
        others = counts(np.delete(available, b))
        sizes = np.arange(k - 1, len(others))
        shares.append(chance * float((k / (sizes + 1)) @ others[k - 1 :]))
    return np.array(shares)


def at_most(available: Numbers, size: int, k: int) -> float:
    """The largest expected number of participations a round that any rule can give the first so many batches."""
    inside, outside = counts(available[:size]), counts(available[size:])
    both = np.outer(inside, outside)
    i, j = np.indices(both.shape)
    return float((both * np.minimum(i, k))[i + j >= k].sum())


def least_square_shares(available: Numbers, k: int) -> Numbers:
    """The shares of least sum of squares that any rule can give, in the order of availability.

    What rules can give is the base of a polymatroid whose rank, of a set, is :func:`at_most`; of the sets of one size
    it is least for the least available. So the shares are level on stretches, found one after the other.
    """
    ordered = np.sort(available)
    ranks = np.array([at_most(ordered, size, k) for size in range(len(ordered) + 1)])
    shares, start = np.empty(len(ordered)), 0
    while start < len(ordered):
        slopes = (ranks[start + 1 :] - ranks[start]) / np.arange(1, len(ordered) - start + 1)
        length = int(np.flatnonzero(slopes <= slopes.min() + 1e-12)[-1]) + 1
        shares[start : start + length] = slopes[length - 1]
        start += length
    return shares


def text_floor(available: Numbers, k: int) -> float:
    """A gap that ``text`` does not stay below: the l least available batches have at most so much, whatever was before.

    Of x of them and y others that are available it takes one by participation and any k - 1 of the rest.
    """
    ordered, floors = np.sort(available), [0.0]
    for size in range(1, len(ordered)):
        both = np.outer(counts(ordered[:size]), counts(ordered[size:]))
        x, y = np.indices(both.shape)
        rows = np.where(x > 0, 1 + (k - 1) * (x - 1) / np.maximum(x + y - 1, 1), 0)
        played = both * (x + y >= k)
        most = float((played * np.minimum(rows, np.minimum(k, x))).sum())
        floors.append((k * float(played.sum()) - most) / (len(ordered) - size) - most / size)
    return max(floors)
