"""Privacy loss distributions of pairs of mechanisms, written independently of simfl and of dp-accounting.

A pair (P, Q) of laws of one release is cut into cells; what a cell holds of each is a discrete pair that says no more
than the release (data processing). Losses ln(p/q) are rounded to a grid, all down for a lower bound of delta, all up
for an upper one, and composed by the discrete Fourier transform. Two-dimensional rows of masses are releases whose row
is known as well, e.g. the number of clients in a sum.
"""

import numpy as np
from scipy.special import ndtr

from simfl.privacy.certify.chain import Beside, bound_at

WIDE = 12.0
"""Standard deviations beyond the means that cells reach; what lies further counts against an upper bound only."""


def gaussian_masses(means, weights, std, cells=4000, wide=WIDE):
    """What each cell of a common partition holds of a mixture of normal laws, and that partition's edges."""
    edges = np.linspace(min(means) - wide * std, max(means) + wide * std, cells + 1)
    return sum(w * np.diff(ndtr((edges - mean) / std)) for mean, w in zip(means, weights, strict=True))


def mixtures(*laws, std, cells=4000):
    """The masses of several mixtures {mean: weight} over one partition, rows (laws, cells)."""
    means = sorted({mean for law in laws for mean in law})
    return [gaussian_masses(means, [law.get(mean, 0.0) for mean in means], std, cells) for law in laws]


def losses_down(p, q, grid):
    """The distribution under p of ln(p/q), rounded down to multiples of ``grid``: (least multiple, masses).

    Cells that q does not hold count as a loss of 60, which is less than the infinite one they have.
    """
    p, q = np.ravel(p), np.ravel(q)
    held = p > 1e-300
    p, q = p[held], q[held]
    with np.errstate(divide="ignore"):
        loss = np.minimum(np.log(p) - np.log(q), 60.0)
    loss = np.maximum(loss, -60.0 - grid)  # below, nothing adds to delta for the epsilons asked for
    steps = np.floor(loss / grid).astype(np.int64)
    least = int(steps.min())
    return least, np.bincount(steps - least, p)


def sampled_losses(q, std, grid, add, up):
    """Of the Poisson sampled Gaussian mechanism of sensitivity 1, by its closed form; rounded down, or up.

    Args:
        q: the sampling probability.
        std: of the noise.
        add: the direction, N(0) against the mixture; else the mixture against N(0).
        up: the direction of the rounding.
    """
    s2 = std**2
    low, high = (np.log1p(-q + q * np.exp((2 * x - 1) / (2 * s2))) for x in (-WIDE * std, 1 + WIDE * std))
    first, last = int(np.floor(low / grid)), int(np.ceil(high / grid))
    with np.errstate(divide="ignore", invalid="ignore"):
        at = s2 * np.log((np.expm1(np.arange(first, last + 1) * grid) + q) / q) + 0.5
    at = np.where(np.isnan(at), -np.inf, at)  # below ln(1 - q) there is nothing
    at[0], at[-1] = -np.inf, np.inf
    if add:
        masses = np.diff(ndtr(at / std))[::-1]
        first, last = -last, -first
    else:
        masses = np.diff((1 - q) * ndtr(at / std) + q * ndtr((at - 1) / std))
    return first + int(up), masses


def epsilon(losses, rounds, delta, grid):
    """The least epsilon of so many releases of one law at delta, by the losses' sum over the rounds."""
    least, masses = losses
    steps = np.arange(len(masses)) + least
    mean = float(masses @ steps) * rounds
    # the sums' law on a circle that is long enough: Bernstein's range, generously
    spread = np.sqrt(rounds * float(masses @ (steps - mean / rounds) ** 2))
    half = int(40 * spread + 2 * len(masses) + 64)
    size = 1 << int(np.ceil(np.log2(2 * half)))
    centre = int(round(mean / rounds))
    placed = np.bincount((steps - centre) % size, masses, minlength=size)
    total = np.fft.irfft(np.fft.rfft(placed) ** rounds, size)
    where = (np.arange(size) + size // 2) % size - size // 2
    values = (where + centre * rounds) * grid
    order = np.argsort(values)
    values, total = values[order], np.maximum(total[order], 0.0)
    above, weighed = np.cumsum(total[::-1])[::-1], np.cumsum((total * np.exp(-np.maximum(values, -700)))[::-1])[::-1]

    def excess(e):
        i = np.searchsorted(values, e, side="right")
        return 0.0 if i == len(values) else above[i] - np.exp(e) * weighed[i]

    low, high = 0.0, float(values[-1])
    if excess(0.0) <= delta:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return low


def binomial(n, q):
    """The probabilities of 0 ... n heads."""
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, q)


def known_size(n, q, std, removal):
    """Masses (sizes, cells) of the sum over its size m, where m is known and every other update is the same vector.

    The mean of m updates v, of which one may be x = -v instead, in units of the clip norm and from m v: with x the sum
    is 2 off; where x is 0, 1. By zero-out the coins fall alike in both worlds; by removal there are n - 1 of them.
    """
    sizes = np.arange(n + 1)
    of_p = binomial(n, q)
    likely = of_p > 1e-12
    of_q = np.append(binomial(n - 1, q), 0.0) if removal else of_p
    p, other = [], []
    for m, a, b in zip(sizes[likely], of_p[likely], of_q[likely], strict=True):
        inside = m / n
        there, gone = {0.0: 1 - inside, 2.0: inside}, {0.0: 1.0} if removal else {0.0: 1 - inside, 1.0: inside}
        one, two = mixtures({**{1.0: 0.0}, **there}, {**{1.0: 0.0, 2.0: 0.0}, **gone}, std=std, cells=1500)
        p.append(a * one)
        other.append(b * two)
    return np.array(p), np.array(other)


def own_loss(stage, facts):
    """What a stage says that its noise leaves, if no other stage is there."""
    return stage.loss(facts, bound_at((stage,), 0, (facts,), Beside()))
