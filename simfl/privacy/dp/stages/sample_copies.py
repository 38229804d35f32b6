"""What one training sample does to a sum, all its copies together."""

from itertools import compress
from math import inf

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.stage import Members


def of_each_sample(members: Members, penalty: float) -> NDArray[np.float64]:
    """By how much, in the Euclidean norm, one sample of its client moves each weighted update in the sum, (n,).

    What SGD's own steps allow (:mod:`simfl.learning.work`). Exact minimisers of a mean of k losses and an L2
    penalty: 2 L / (k penalty) by Chaudhuri, Monteleoni and Sarwate, JMLR 2011, Corollary 8, with the samples k and the
    slope L of the run. Infinite where these are not known, or clients may leave after a look at their data.
    """
    inside = members.weights > 0
    if members.moves is not None and not members.follows_data:
        return np.asarray(members.moves[inside] * members.weights[inside])
    if members.slope is None or members.examples is None or members.follows_data or not penalty:
        return np.full(int(inside.sum()), inf)
    with np.errstate(divide="ignore"):
        return 2 * np.float64(members.slope) / (members.examples[inside] * penalty) * members.weights[inside]


def of_one_sample(members: Members, each: NDArray[np.float64]) -> float:
    """The most that one sample does to a sum: what a copy of it does to each update in the sum, (n,), of all copies."""
    if members.positions is None:
        return float(each.sum())  # nobody knows: it may be in every update
    inside = list(compress(members.positions, members.weights > 0))
    copies = np.repeat(each, [len(positions) for positions in inside])
    return float(np.bincount(np.concatenate([*inside, np.zeros(0, np.int64)]), copies).max(initial=0.0))
