"""What one training sample does to a sum, all its copies together."""

from itertools import compress

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.stage import Members


def of_one_sample(members: Members, each: NDArray[np.float64]) -> float:
    """The most that one sample does to a sum: what a copy of it does to each update in the sum, (n,), of all copies."""
    if members.positions is None:
        return float(each.max(initial=0.0))
    inside = list(compress(members.positions, members.weights > 0))
    copies = np.repeat(each, [len(positions) for positions in inside])
    return float(np.bincount(np.concatenate([*inside, np.zeros(0, np.int64)]), copies).max(initial=0.0))
