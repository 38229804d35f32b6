"""Samples that are tokens of a text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.image_arrays import broken


def check_tokens(parts: Sequence[NDArray[np.generic]], classes: int, what: object) -> None:
    """Compares samples with the number of classes, which are the tokens that may come next.

    Raises:
        ScenarioError: they are no lists of whole numbers from 0 to ``classes`` - 1.
    """
    for part in parts:
        if part.ndim != 2 or part.dtype.kind not in "iu":
            raise broken(what, f"tokens are lists of whole numbers (n, length), not {part.dtype} of shape {part.shape}")
        if part.size and not (0 <= part.min() and part.max() < classes):
            raise broken(what, f"tokens reach from {part.min()} to {part.max()}, not from 0 to {classes - 1}")
