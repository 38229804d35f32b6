"""Whose each sample is."""

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.image_arrays import broken


def check_ids(ids: NDArray[np.generic], samples: int, what: object) -> None:
    """Compares the clients of samples, whole numbers or texts, with their number.

    Raises:
        ScenarioError: they are something else, or not one for each of the samples.
    """
    if ids.dtype.kind not in "iuU":
        raise broken(what, f"is {ids.dtype}; clients are whole numbers or texts")
    if ids.shape != (samples,):
        raise broken(what, f"has the shape {ids.shape} for {samples} samples")


def cut_by_client(
    ids: NDArray[np.generic] | None, samples: int, test_fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions for training and test, both sorted: the same share of each client's samples, drawn.

    A client keeps one sample at least for training. Where samples are nobody's (``ids`` None), they are cut as one
    client's would be.
    """
    code = np.zeros(samples, dtype=np.int64) if ids is None else np.unique(ids, return_inverse=True)[1]
    order = rng.permutation(samples)
    order = order[np.argsort(code[order], kind="stable")]
    sizes = np.bincount(code)
    rank = np.arange(samples) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    test_sizes = np.minimum(np.round(sizes * test_fraction), sizes - 1)
    test = rank < np.repeat(test_sizes, sizes)
    return np.sort(order[~test]), np.sort(order[test])
