"""What no coalition of a given size can exceed: upper bounds that hold for every coalition.

For a coalition C, the squared signal to noise of client i is the least of |A x|^2 over x with x_i = 1 that are 0 in C.
Every such x is therefore a bound for those coalitions that miss its support. Of more than c vectors x whose supports
share only i, a coalition of c clients misses at least one, so that the (c + 1)-th smallest value bounds them all.
"""

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.ledger.information import TOLERANCE, Floats

PARTITIONS = (1, 7)
"""Strides by which clients are dealt to groups; every one gives bounds that hold."""


def pairs(gram: Floats) -> Floats:
    """Squared distances of each column of A from each other one's line, ascending in each row, shape (N, N - 1).

    The entry c of a row bounds what c colluders learn of that client, and entry N - 2 is what the best N - 2 do.

    Args:
        gram: A'A, shape (N, N).
    """
    lengths = np.diag(gram).copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = lengths[:, None] - np.where(lengths > 0, gram**2 / lengths, 0.0)
    distances[distances < TOLERANCE * lengths[:, None]] = 0.0  # rounding; a difference that small counts as none
    np.fill_diagonal(distances, np.inf)
    return np.sort(distances, axis=1)[:, :-1]


def groups(gram: Floats, colluders: int) -> Floats:
    """Squared distances that bound what so many colluders learn, shape (N,); infinite where there are too few clients.

    The clients are dealt to colluders + 2 groups. At least one group other than the client's own has no colluder.
    """
    clients = len(gram)
    number = colluders + 2
    bound = np.full(clients, np.inf)
    if number > clients:
        return bound
    for stride in PARTITIONS:
        label = (np.arange(clients) * stride % clients) * number // clients
        worst = np.zeros(clients)
        for group in range(number):
            members = np.flatnonzero(label == group)
            distance = _distances(gram, members)
            distance[members] = 0.0  # its own group is not used
            np.maximum(worst, distance, out=worst)
        np.minimum(bound, worst, out=bound)
    return bound


def _distances(gram: Floats, members: NDArray[np.int64]) -> Floats:
    """Squared distances of all columns from a point in the span of some, next to the nearest; shape (N,).

    Any point of the span gives a bound, so that a small ridge for nearly dependent columns does no harm.
    """
    inner, cross = gram[np.ix_(members, members)], gram[members]
    ridge = TOLERANCE * float(np.trace(inner)) or 1.0
    near = np.linalg.solve(inner + ridge * np.eye(len(members)), cross)
    lengths = np.diag(gram)
    distance: Floats = lengths - 2 * (near * cross).sum(axis=0) + (near * (inner @ near)).sum(axis=0)
    return np.where(distance < 10 * TOLERANCE * lengths, 0.0, distance)


def smaller_than_hidden(colluders: NDArray[np.int64], class_sizes: NDArray[np.int64], weak: int) -> NDArray[np.bool_]:
    """Where so many colluders learn nothing for certain, shape (colluders, N).

    A client that always took part together with s - 1 others, with equal weights, is hidden among those of them who do
    not collude; and no combination of the sums has fewer than ``weak`` clients.
    """
    return (colluders[:, None] < class_sizes - 1) | (colluders[:, None] + 1 < weak)
