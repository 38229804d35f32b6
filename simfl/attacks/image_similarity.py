"""How alike two pictures are, values in [0, 1], (channels, height, width)."""

from math import prod

import numpy as np
from numpy.typing import NDArray

SIGMA, RADIUS = 1.5, 5
"""Of the Gaussian window, 11 pixels wide. Reference: Wang et al. 2004."""


def psnr(true: NDArray[np.float32], recovered: NDArray[np.float32]) -> float:
    """Peak signal-to-noise ratio, dB: -10 log10 of the mean squared error."""
    error = float(np.mean(np.square(true.astype(np.float64) - recovered)))
    return -10 * float(np.log10(max(error, 1e-30)))


def ssim(true: NDArray[np.float32], recovered: NDArray[np.float32]) -> float:
    """Structural similarity, mean over channels and inner pixels; NaN for pictures smaller than its window."""
    from scipy.ndimage import gaussian_filter

    if true.ndim != 3 or min(true.shape[1:]) <= 2 * RADIUS:
        return float("nan")

    def smooth(picture: NDArray[np.float64]) -> NDArray[np.float64]:
        sigma = (0, SIGMA, SIGMA)
        inner: NDArray[np.float64] = gaussian_filter(picture, sigma, truncate=RADIUS / SIGMA)
        return inner[:, RADIUS:-RADIUS, RADIUS:-RADIUS]

    x, y = true.astype(np.float64), recovered.astype(np.float64)
    mx, my = smooth(x), smooth(y)
    vx, vy, cxy = smooth(x * x) - mx * mx, smooth(y * y) - my * my, smooth(x * y) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    ratio = (2 * mx * my + c1) * (2 * cxy + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))
    return float(ratio.mean())


def assign_samples(true: NDArray[np.float32], recovered: NDArray[np.float32]) -> NDArray[np.int64]:
    """For each true sample the one of (m, ...) that is assigned to it, least squared error in all; -1 where there are
    fewer.
    """
    from scipy.optimize import linear_sum_assignment

    n, flat = len(true), _flat(true)
    place = np.full(n, -1, dtype=np.int64)
    if len(recovered):
        other = _flat(recovered)
        cost = np.square(flat).sum(1)[:, None] + np.square(other).sum(1) - 2 * flat @ other.T
        rows, columns = linear_sum_assignment(cost)
        place[rows] = columns
    return place


def _flat(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n, ...) as (n, d), also where there is no sample."""
    return samples.reshape(len(samples), prod(samples.shape[1:])).astype(np.float64)
