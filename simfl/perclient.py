"""Values that each client has of its own: one number for all, a list, or a distribution drawn once."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Discriminator, Field, Tag

from simfl.distributions import DistributionField, NonNegative
from simfl.errors import ScenarioError

__all__ = ["Choices", "PerClient", "Probabilities", "Probability", "equal", "listed", "per_client", "probabilities"]

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Choices:
    """Each client gets one of these values, uniformly at random from the seed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    choices: Annotated[tuple[Probability, ...], Field(strict=False, min_length=1, description="values to draw from")]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.asarray(self.choices, dtype=float)[rng.integers(len(self.choices), size=size)]


def _form(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "list"
    if isinstance(value, Choices) or (isinstance(value, dict) and "name" not in value):
        return "choices"
    return "number" if isinstance(value, (int, float)) else "distribution"


def _value_form(value: Any) -> str:
    form = _form(value)
    return "distribution" if form == "choices" else form


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
    | Annotated[Choices, Tag("choices")]
    | Annotated[DistributionField, Tag("distribution")],
    Discriminator(_form),
]
"""As :data:`PerClient`, within [0, 1]; also ``{choices: [...]}``."""


def per_client(value: Any, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The value of each client, shape (clients,); the stream is used only by a distribution."""
    if isinstance(value, (int, float)):
        return np.full(clients, float(value))
    return np.asarray(value, dtype=float) if isinstance(value, tuple) else value.sample(rng, clients)


def probabilities(key: str, value: Any, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """As :func:`per_client`.

    Raises:
        ScenarioError: the distribution gave ``key`` a value above 1.
    """
    drawn = per_client(value, clients, rng)
    if (highest := drawn.max(initial=0)) > 1:
        raise ScenarioError(key, f"the distribution gave {highest:.6g}, but a probability is at most 1")
    return drawn


def listed(key: str, value: Any, clients: int, of: str = "clients") -> list[tuple[str, str]]:
    """The problem of a list whose length is not the number of clients (for a plugin's ``check``)."""
    if not isinstance(value, tuple) or len(value) == clients:
        return []
    return [(key, f"lists {len(value)} values but there are {clients} {of}; give {clients} values or one number")]


def equal(value: Any) -> bool:
    """Whether all clients certainly have the same value."""
    if isinstance(value, tuple):
        return len(set(value)) <= 1
    if isinstance(value, Choices):
        return len(set(value.choices)) == 1
    return isinstance(value, (int, float)) or getattr(value, "name", None) == "constant"
