"""Means and differences of means with 95 % Student t confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and where its true value lies with 95 % confidence.

    Attributes:
        estimate: a mean or a difference of means; NaN without values.
        lower, upper: None where there are fewer than two values.
        count: values, or pairs, that it is of.
    """

    estimate: float
    lower: float | None = None
    upper: float | None = None
    count: int = 0

    @property
    def half_width(self) -> float:
        """Half of the interval; NaN where there are fewer than two values."""
        return nan if self.lower is None or self.upper is None else (self.upper - self.lower) / 2

    def text(self, places: int = 1) -> str:
        """The estimate and half of its interval; of fewer than three values it is too wide to be of use, and left out.

        Args:
            places: digits after the point, of both.

        >>> mean([1.0, 2.0]).text(), mean([-1.0, -2.0, -3.0]).text(), unpaired_difference([3.0], [1.0, 2.0]).text()
        ('1.5', '−2.0 ± 2.5', '1.5')
        """
        half = "" if self.lower is None or self.count < 3 else f" ± {self.half_width:.{places}f}"
        return f"{self.estimate:.{places}f}".replace("-", "−") + half


def mean(values: Sequence[float] | NDArray[np.floating]) -> Interval:
    """The mean of independent values, at least one."""
    n = len(values)
    error = float(np.std(values, ddof=1)) / sqrt(n) if n > 1 else 0.0
    return _interval(float(np.mean(values)), error, n - 1, n)


def paired_difference(values: Sequence[float], baseline: Sequence[float]) -> Interval:
    """Mean of ``values - baseline``, pair by pair: with common random numbers, what both share cancels."""
    return mean(np.subtract(values, baseline))


def unpaired_difference(values: Sequence[float], baseline: Sequence[float]) -> Interval:
    """The same difference as if both samples had been drawn independently, of unequal variances.

    References:
        B. L. Welch, The generalization of "Student's" problem, Biometrika 34 (1947), with Satterthwaite's degrees
        of freedom.
    """
    n, m = len(values), len(baseline)
    difference = float(np.mean(values) - np.mean(baseline))
    if n < 2 or m < 2:
        return _interval(difference, 0.0, 0, n + m)
    a, b = float(np.var(values, ddof=1)) / n, float(np.var(baseline, ddof=1)) / m
    freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1)) if a + b > 0 else 1.0
    return _interval(difference, sqrt(a + b), freedom, n + m)


def half_width(error: Any, freedom: float) -> Any:
    """Half of the interval around estimates of these standard errors (a number or an array), freedom > 0."""
    from scipy.special import stdtrit  # the inverse of Student's distribution; scipy.stats takes a second to import

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error


def _interval(estimate: float, error: float, freedom: float, count: int) -> Interval:
    if freedom <= 0:
        return Interval(estimate, count=count)
    half = float(half_width(error, freedom))
    return Interval(estimate, estimate - half, estimate + half, count)
