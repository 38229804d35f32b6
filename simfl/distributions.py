"""Named probability distributions: durations, latencies, speeds.

A number where a distribution may stand means the constant. Sampling is vectorised and has the
prefix property of :mod:`simfl.rng`. Samples are non-negative.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.registry import Registry

__all__ = ["DISTRIBUTIONS", "Distribution", "DistributionField", "NonNegative", "Constant", "Empirical"]

DISTRIBUTIONS = Registry("distribution", number=("constant", "value"))

Positive = Annotated[float, Field(gt=0, le=1e12)]
NonNegative = Annotated[float, Field(ge=0, le=1e12)]


class Distribution(Protocol):
    """A distribution over the non-negative reals, in the unit of the field it stands in."""

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        """``size`` independent draws."""
        ...

    @property
    def mean(self) -> float:
        """The expected value."""
        ...


DistributionField = Annotated[Any, DISTRIBUTIONS]
"""The type of a plugin field that holds a distribution (or a number)."""


@DISTRIBUTIONS("constant")
@dataclass(frozen=True)
class Constant:
    """Always the same value; a bare number is short for it."""

    value: Annotated[NonNegative, Field(description="the value")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.full(size, float(self.value))

    @property
    def mean(self) -> float:
        return float(self.value)


@DISTRIBUTIONS("uniform")
@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high)."""

    low: Annotated[NonNegative, Field(description="lower end")]
    high: Annotated[NonNegative, Field(description="upper end, at least low")]

    def check(self, scenario: Any) -> list[tuple[str, str]]:
        if self.low <= self.high:
            return []
        return [("high", f"is below low ({self.low}); the nearest valid value is {self.low}")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.low + (self.high - self.low) * rng.random(size)

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2


@DISTRIBUTIONS("exponential")
@dataclass(frozen=True)
class Exponential:
    """Exponential with the given mean."""

    mean: Annotated[NonNegative, Field(description="expected value")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.mean * rng.standard_exponential(size)


@DISTRIBUTIONS("half_normal")
@dataclass(frozen=True)
class HalfNormal:
    """|N(0, sigma^2)|: the training durations of the FedBuff paper (arXiv 2106.06639, section 5)."""

    sigma: Annotated[Positive, Field(description="standard deviation of the underlying normal")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.sigma * np.abs(rng.standard_normal(size))

    @property
    def mean(self) -> float:
        return float(self.sigma * np.sqrt(2 / np.pi))


@DISTRIBUTIONS("log_normal")
@dataclass(frozen=True)
class LogNormal:
    """exp(N(log median, sigma^2))."""

    median: Annotated[Positive, Field(description="median")]
    sigma: Annotated[float, Field(ge=0, le=10, description="standard deviation of the logarithm")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.median * np.exp(self.sigma * rng.standard_normal(size))

    @property
    def mean(self) -> float:
        return float(self.median * np.exp(self.sigma**2 / 2))


@DISTRIBUTIONS("empirical")
@dataclass(frozen=True)
class Empirical:
    """Uniform over the listed measurements."""

    values: Annotated[tuple[NonNegative, ...], Field(min_length=1, description="measured values")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.asarray(self.values, dtype=float)[rng.integers(len(self.values), size=size)]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))
