"""Means and differences of means with 95 % Student t confidence intervals; whether a difference is chance.

P values stay right for measures that move in steps. Student's paired t-test is exact for normal differences. It is far
too bold where values lie on a grid (rounds to a target, accuracies on some hundred test samples, constants): a few
equal differences have no spread, and the test takes them for certain. So values on a grid are taken as rounded numbers,
each known to half a step only, and the p value is the largest that the test has for any numbers that round to them.
From :data:`SIGN_FLIPS_FROM` pairs on Fisher's exact sign-flip test is made as well, and twice the smaller p value of
the two counts (Bonferroni). And a measure may have two values that are far apart, with a little noise on each: with few
pairs it may differ by about the same amount in all of them by chance, which no test can tell from a large effect. So
three or four pairs never give a small p value.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Floats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and where its true value lies with 95 % confidence.

    Attributes:
        estimate: a mean or a difference of means; NaN without values.
        lower, upper: None where there is no interval: of fewer than two values, or where runs have collapsed.
        count: values, or pairs, that it is of.
    """

    estimate: float
    lower: float | None = None
    upper: float | None = None
    count: int = 0

    @property
    def half_width(self) -> float:
        """The longer side of the interval; NaN where there is none."""
        if self.lower is None or self.upper is None:
            return nan
        return max(self.upper - self.estimate, self.estimate - self.lower)

    def text(self, places: int = 1) -> str:
        """The estimate and half of its interval; of fewer than three values it is too wide to be of use, and left out.

        Args:
            places: digits after the point, of both.

        >>> mean([1.0, 2.0]).text(), mean([-1.0, -2.0, -3.0]).text(), mean([3.0]).text()
        ('1.5', '−2.0 ± 2.5', '3.0')
        """
        half = "" if self.lower is None or self.count < 3 else f" ± {self.half_width:.{places}f}"
        return f"{self.estimate:.{places}f}".replace("-", "−") + half


def mean(values: Sequence[float] | NDArray[np.floating]) -> Interval:
    """The mean of independent values, at least one, with Student's interval."""
    return student([np.asarray(values, dtype=np.float64)])[0]


def paired_difference(values: Sequence[float], baseline: Sequence[float]) -> Interval:
    """Mean of ``values - baseline``, pair by pair: with common random numbers, what both share cancels."""
    return mean(np.subtract(values, baseline))


def student(samples: Sequence[NDArray[np.floating]]) -> list[Interval]:
    """Means with Student's intervals, of samples (n,) of one value or more each."""
    result = [Interval(float(np.mean(values)), count=len(values)) for values in samples]
    for n in {len(values) for values in samples} - {1}:
        places = [place for place, values in enumerate(samples) if len(values) == n]
        lower, upper = student_ends(np.stack([samples[place] for place in places]))
        for place, low, high in zip(places, lower.tolist(), upper.tolist(), strict=True):
            result[place] = Interval(result[place].estimate, low, high, n)
    return result


def student_ends(values: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Lower and upper ends of Student's intervals of the means of (..., n), n > 1."""
    from scipy import stats  # takes a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of equal values: their interval has no width
        interval = stats.ttest_1samp(values, 0.0, axis=-1).confidence_interval(CONFIDENCE)
    return interval.low, interval.high


def unpaired_ends(values: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """Ends of the intervals of the same differences as if samples (..., n) had been drawn independently (Welch)."""
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        interval = stats.ttest_ind(values, baseline, axis=-1, equal_var=False).confidence_interval(CONFIDENCE)
    difference = values.mean(axis=-1) - baseline.mean(axis=-1)
    return np.where(np.isnan(interval.low), difference, interval.low), np.where(
        np.isnan(interval.high), difference, interval.high
    )


FEWEST_PAIRS = 3
"""Pairs below which no difference is called more than chance: of two, the spread is hardly known."""

NORMAL_FROM = 5
"""Pairs below which p is at least 2 / 4^n: the greatest probability with which n independent pairs of a measure of two
values show the same difference, other than zero; 0.031 for three pairs, 0.0078 for four, below 0.002 from five on."""

SIGN_FLIPS_FROM = 8
"""Pairs from which on the sign-flip test is made for values on a grid: with fewer, its p value is hardly below 5 %."""

FINEST = 1e-6
"""Steps below this share of the values' range are those of rounding errors, or too fine to matter."""

ROUNDING = 1e-9, 1e-12
"""What counts as zero in looking for a step: shares of the range, and of the largest value."""

WIDEST = 1 << 20
"""Steps in all differences together beyond which the sign-flip test is left out: the grid is as good as none."""


def p_values(values: object, baseline: object) -> Floats:
    """How probable, at most, a mean difference at least so large is where there is none; two-sided.

    Args:
        values, baseline: of n pairs (seeds), (..., n) each.

    Returns:
        Shape (...). 1 for fewer than :data:`FEWEST_PAIRS` pairs.

    References:
        Student, The probable error of a mean, Biometrika 6 (1908). R. A. Fisher, The Design of Experiments (1935),
        section 21, for the sign-flip test.
    """
    values, baseline = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    n = values.shape[-1]
    if n < FEWEST_PAIRS:
        return np.ones(values.shape[:-1])
    from scipy import stats

    differences = values - baseline
    differences[np.abs(differences) <= ROUNDING[1] * np.maximum(np.abs(values), np.abs(baseline))] = 0.0
    shape, differences = differences.shape[:-1], differences.reshape(-1, n)
    step = steps(np.concatenate([values, baseline], axis=-1)).reshape(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of equal differences, which are dealt with below
        probability = np.asarray(stats.ttest_1samp(differences, 0.0, axis=-1).pvalue)
    rounded = (step > 0) | (differences == differences[:, :1]).all(axis=-1)
    least_t = _least_statistic(differences[rounded], step[rounded])
    probability[rounded] = 2 * stats.t.sf(least_t, n - 1)
    if n < NORMAL_FROM:
        probability = np.maximum(probability, least(n))
    for place in np.flatnonzero(step > 0).tolist() if n >= SIGN_FLIPS_FROM else ():
        whole = np.rint(differences[place] / step[place]).astype(np.int64)
        if np.abs(whole).sum() <= WIDEST:
            probability[place] = min(1.0, 2 * min(probability[place], _sign_flips(whole)))
    return probability.reshape(shape)


def margin_p_values(values: object, baseline: object, margin: float | Floats) -> Floats:
    """How probable, at most, a mean so large is where the baseline's true mean is larger by ``margin``; one-sided.

    Args:
        values, baseline: of n pairs (seeds), (..., n) each.
        margin: one, or (...).

    Returns:
        Shape (...). 1 for fewer than :data:`FEWEST_PAIRS` pairs.
    """
    from scipy.special import stdtr

    values, baseline = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    n = values.shape[-1]
    if n < FEWEST_PAIRS:
        return np.ones(np.broadcast_shapes(values.shape, baseline.shape)[:-1])
    step = steps(np.concatenate(np.broadcast_arrays(values, baseline), axis=-1))
    gains = values - baseline + np.asarray(margin)[..., None]
    probability = stdtr(n - 1, -_least_statistic(gains, step))
    above = np.maximum(probability, least(n) / 2)
    return np.where(gains.mean(axis=-1) > 0, above, 1 - probability)


def steps(values: Floats) -> Floats:
    """The largest step of which all distances between the values are multiples, (..., m) to (...).

    0 where there is none but for rounding errors (values are continuous), or all values are equal.
    """
    low, high = values.min(axis=-1), values.max(axis=-1)
    tolerance = np.maximum(ROUNDING[0] * (high - low), ROUNDING[1] * np.maximum(np.abs(low), np.abs(high)))
    step = np.zeros(low.shape)
    for place in range(values.shape[-1]):  # Euclid's algorithm, with the remainder nearest to zero
        rest = values[..., place] - low
        while np.any(some := rest > tolerance):
            quotient = np.divide(step, rest, out=np.zeros(step.shape), where=some)
            step, rest = np.where(some, rest, step), np.where(some, np.abs(step - np.rint(quotient) * rest), rest)
        if np.all((step > 0) & (step <= FINEST * (high - low))):  # it only falls
            break
    return np.where(step > FINEST * (high - low), step, 0.0)


def least(pairs: int) -> float:
    """The least p value that so many pairs can have."""
    return 1.0 if pairs < FEWEST_PAIRS else 2.0 / 4**pairs if pairs < NORMAL_FROM else 0.0


def holm(p: Sequence[float], level: float) -> float:
    """The greatest of some p values that is significant among all of them at a family-wise level; -1 if none is.

    References:
        S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    ascending = np.sort(p)
    rejected = np.logical_and.accumulate(ascending <= level / np.arange(len(p), 0, -1))  # up to the first that is not
    return float(ascending.max(where=rejected, initial=-1.0))


def _least_statistic(differences: Floats, step: Floats) -> Floats:
    """The least |t| of Student's paired test for any differences within a step of those given, (..., n) to (...).

    Where zero lies within a step of the mean it is 0. Else |t| grows with the mean over the root mean square, a
    quasi-concave function, so that its least value lies at a corner of the box; and of the corners with equally many
    differences moved up, the widest is the one that moves the largest up. That leaves n + 1 corners.
    """
    n = differences.shape[-1]
    ascending = np.sort(np.where(differences.mean(axis=-1, keepdims=True) < 0, -differences, differences), axis=-1)
    least = np.full(step.shape, np.inf)
    zero = ascending.sum(axis=-1) <= n * step
    for moved in range(n + 1):
        signs = np.where(np.arange(n) < n - moved, -1.0, 1.0)
        corner = ascending + signs * step[..., None]
        error = corner.std(axis=-1, ddof=1) / np.sqrt(n)
        mean = corner.mean(axis=-1)
        t = np.divide(mean, error, out=np.full(mean.shape, np.inf), where=error > 0)
        least = np.minimum(least, t)
    return np.where(zero, 0.0, least)


def _sign_flips(differences: NDArray[np.int64]) -> float:
    """The exact probability that whole numbers, each with either sign by a fair coin, have at least such a |sum|."""
    law = np.ones(1)
    for size in np.abs(differences[differences != 0]).tolist():
        wider = np.zeros(len(law) + 2 * size)
        wider[: len(law)] += law / 2
        wider[2 * size :] += law / 2
        law = wider
    middle, total = len(law) // 2, abs(int(differences.sum()))
    if not total:
        return 1.0
    return float(2 * law[middle + total :].sum())
