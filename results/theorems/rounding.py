"""An update on the grid of BASecAgg (arXiv 2110.02177, equation 10), rounded by the protocol's own function."""

import numpy as np
from numpy.typing import NDArray

from simfl.secagg.crypto.quantise import Grid, round_stochastically

CLIP = 1.0
"""Updates lie within this."""


def on_grid(update: NDArray[np.float64], scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """The update, (d,), as whole numbers of 1 / scale."""
    return round_stochastically(update, Grid(scale, CLIP), rng).values / scale
