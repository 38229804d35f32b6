"""Named probability distributions (durations, latencies, speeds), and values that each client has of its own.

A number where a distribution may stand means the constant. Sampling is vectorised and has the
prefix property of :mod:`simfl.core.rng`. Samples are non-negative.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import exp
from typing import Annotated, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Discriminator, Field, Tag

from simfl.core.errors import ScenarioError, amount
from simfl.core.registration.protocol import Plugin, is_plugin
from simfl.core.registration.registry import Registry
from simfl.core.scenario_view import ScenarioView

Positive = Annotated[float, Field(gt=0, le=1e12)]
NonNegative = Annotated[float, Field(ge=0, le=1e12)]
Probability = Annotated[float, Field(ge=0, le=1)]
LARGEST_EXPONENT = 709.0
"""exp of more is no float64."""


def exponentials(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp of each of the values (n,), at most exp(709); the same bits with and without AVX-512, unlike numpy's."""
    return np.fromiter(map(exp, np.minimum(values, LARGEST_EXPONENT)), np.float64, len(values))


class Distribution(Plugin, Protocol):
    """A distribution over the non-negative reals, in the unit of the field it stands in."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        """``size`` independent draws."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expected value."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The least and the largest value of a bounded distribution; None if it is not bounded."""
        return None


DISTRIBUTIONS = Registry[Distribution]("distribution", number=("constant", "value"), protocol=Distribution)

DistributionField = Annotated[Any, DISTRIBUTIONS]
"""The type of a plugin field that holds a distribution (or a number)."""


@DISTRIBUTIONS("constant")
@dataclass(frozen=True)
class Constant:
    """Always the same value; a bare number is short for it."""

    value: Annotated[NonNegative, Field(description="the value")]

    example = {"value": 1}

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.full(size, float(self.value))

    @property
    def ends(self) -> tuple[float, float]:
        return self.value, self.value

    @property
    def mean(self) -> float:
        return float(self.value)


@DISTRIBUTIONS("uniform")
@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high)."""

    low: Annotated[NonNegative, Field(description="lower end")]
    high: Annotated[NonNegative, Field(description="upper end, at least low")]

    example = {"low": 1, "high": 2}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self.low <= self.high:
            return []
        return [("high", f"is below low ({self.low}); the nearest valid value is {self.low}")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.low + (self.high - self.low) * rng.random(size)

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2


@DISTRIBUTIONS("exponential")
@dataclass(frozen=True)
class Exponential:
    """Exponential with the given mean."""

    mean: Annotated[NonNegative, Field(description="expected value")]

    example = {"mean": 1}

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.mean * rng.standard_exponential(size)


@DISTRIBUTIONS("half_normal")
@dataclass(frozen=True)
class HalfNormal:
    """|N(0, sigma^2)|: the training durations of the FedBuff paper (arXiv 2106.06639, section 5)."""

    sigma: Annotated[Positive, Field(description="standard deviation of the underlying normal")]

    example = {"sigma": 1}

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

    example = {"median": 1, "sigma": 0.5}

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.median * exponentials(self.sigma * rng.standard_normal(size))

    @property
    def mean(self) -> float:
        return float(self.median * np.exp(self.sigma**2 / 2))


@DISTRIBUTIONS("empirical")
@dataclass(frozen=True)
class Empirical:
    """Uniform over the listed measurements."""

    values: Annotated[tuple[NonNegative, ...], Field(min_length=1, description="measured values")]

    example = {"values": [1, 2]}

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.asarray(self.values, dtype=float)[rng.integers(len(self.values), size=size)]

    @property
    def ends(self) -> tuple[float, float]:
        return min(self.values), max(self.values)

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))


# -- one value a client ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choices:
    """Each client gets one of these values, uniformly at random from the seed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    choices: Annotated[tuple[Probability, ...], Field(min_length=1, description="values to draw from")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.asarray(self.choices, dtype=float)[rng.integers(len(self.choices), size=size)]


def _form(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "list"
    if isinstance(value, Choices) or (isinstance(value, dict) and "name" not in value):
        return "one of"
    return "number" if isinstance(value, (int, float)) else "distribution"


def _value_form(value: object) -> str:
    form = _form(value)
    return "distribution" if form == "one of" else form


PerClient = Annotated[
    Annotated[NonNegative, Tag("number")]
    | Annotated[tuple[NonNegative, ...], Tag("list")]
    | Annotated[DistributionField, Tag("distribution")],
    Discriminator(_value_form),
]
"""A number for all clients, a list with one value a client, or a distribution drawn once for each client."""

Probabilities = Annotated[
    Annotated[Probability, Tag("number")]
    | Annotated[tuple[Probability, ...], Tag("list")]
    | Annotated[Choices, Tag("one of")]
    | Annotated[DistributionField, Tag("distribution")],
    Discriminator(_form),
]
"""As :data:`PerClient`, within [0, 1]; also ``{choices: [...]}``."""


def per_client(value: Any, clients: int, rng: np.random.Generator, key: str = "") -> NDArray[np.float64]:
    """The value of each client, shape (clients,); the stream is used only by a distribution.

    Raises:
        ScenarioError: the distribution under ``key`` gave what is no finite number from 0.
    """
    if isinstance(value, (int, float)):
        return np.full(clients, float(value))
    return (
        np.asarray(value, dtype=float)
        if isinstance(value, tuple)
        else checked_draws(key, value, value.sample(rng, clients))
    )


def checked_draws(key: str, distribution: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The draws of a distribution, looked at.

    Raises:
        ScenarioError: one is negative, infinite or no number; no time could pass by it.
    """
    if values.size and not (0 <= values.min() and values.max() < np.inf):
        wrong = values[~((values >= 0) & (values < np.inf))][0]
        raise ScenarioError(
            key, f"the distribution '{distribution.name}' gave {wrong:g}, but a finite number from 0 is needed"
        )
    return values


def _is_distribution(value: object) -> TypeGuard[Distribution]:
    return is_plugin(value)


def reaching(key: str, value: object, least: float = 0.0, most: float = np.inf) -> list[tuple[str, str]]:
    """The problem of a bounded distribution that reaches below ``least`` or above ``most`` (for a plugin's ``check``).

    What an unbounded one gives shows when it is drawn.
    """
    low, high = (value.ends if _is_distribution(value) else None) or (least, most)
    if low < least:
        return [(key, f"the distribution reaches down to {low:g}; the nearest valid value is {least:g}")]
    if high > most:
        return [(key, f"the distribution reaches up to {high:g}; the nearest valid value is {most:g}")]
    return []


def probabilities(key: str, value: object, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """As :func:`per_client`.

    Raises:
        ScenarioError: the distribution gave ``key`` a value above 1.
    """
    rates = per_client(value, clients, rng, key)
    if (highest := rates.max(initial=0)) > 1:
        raise ScenarioError(key, f"the distribution gave {highest:.6g}, but a probability is at most 1")
    return rates


def length_problems(key: str, value: object, clients: int, of: str = "clients") -> list[tuple[str, str]]:
    """The problem of a list whose length is not the number of clients (for a plugin's ``check``)."""
    if not isinstance(value, tuple) or len(value) == clients:
        return []
    text = f"lists {amount(len(value), 'value')} but there are {clients} {of}; give {clients} values or one number"
    return [(key, f"{text}; values of a sweep are written without brackets" if len(value) > 1 else text)]


def all_equal(value: object) -> bool:
    """Whether all clients certainly have the same value."""
    if isinstance(value, tuple):
        return len(set(value)) <= 1
    if isinstance(value, Choices):
        return len(set(value.choices)) == 1
    return isinstance(value, (int, float, Constant))
