"""How old updates are when they arrive, and how much they count (science: FedAsync, arXiv 1903.03934, section 5).

The staleness of an update is the number of server updates since its client downloaded the model.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry


class Staleness(Plugin, Protocol):
    """A staleness function s: 1 at staleness 0 and never increasing.

    Attributes:
        level_until: the largest staleness up to which s is certainly 1, so that updates no older count the same;
            infinity = s is constant. Noise of which clients add equal parts rests on it.
    """

    level_until: float = 0.0

    @abstractmethod
    def weight(self, staleness: NDArray[np.number]) -> NDArray[np.float64]:
        """s(τ) of each staleness τ >= 0, float64 of the same shape."""


STALENESS = Registry[Staleness]("staleness", promises=("level_until",), protocol=Staleness)


@STALENESS("constant")
@dataclass(frozen=True)
class ConstantStaleness:
    """An old update counts as much as a fresh one."""

    level_until = inf

    def weight(self, staleness: NDArray[np.number]) -> NDArray[np.float64]:
        return np.ones(np.shape(staleness))


@STALENESS("polynomial")
@dataclass(frozen=True)
class PolynomialStaleness:
    """(1 + τ)^(-alpha); the FedBuff paper uses alpha = 0.5."""

    alpha: Annotated[float, Field(ge=0, le=100, description="exponent; 0 = constant")] = 0.5

    @property
    def level_until(self) -> float:
        """A power of 0 is 1."""
        return 0.0 if self.alpha else inf

    def weight(self, staleness: NDArray[np.number]) -> NDArray[np.float64]:
        return (1.0 + np.asarray(staleness)) ** -self.alpha


@STALENESS("hinge")
@dataclass(frozen=True)
class HingeStaleness:
    """1 up to τ = b, then 1 / (a (τ - b) + 1)."""

    a: Annotated[float, Field(ge=0, le=1e6, description="how fast the weight falls after b")] = 10.0
    b: Annotated[float, Field(ge=0, le=1e9, description="largest staleness of full weight")] = 4.0

    @property
    def level_until(self) -> float:
        """Where it begins to fall, if it does."""
        return self.b if self.a else inf

    def weight(self, staleness: NDArray[np.number]) -> NDArray[np.float64]:
        return 1.0 / (self.a * np.maximum(np.asarray(staleness) - self.b, 0.0) + 1.0)


class Arrivals(Plugin, Protocol):
    """A frozen dataclass.

    Attributes:
        server: name of the server that runs it, of the family "server".
        clocked: whether clients occupy slots on the simulated clock, so that ``concurrency`` means something.
        oldest: the largest staleness that an update can have; None = nobody knows one.
    """

    server: str
    clocked: bool
    oldest: int | None = None


ARRIVALS = Registry[Arrivals]("arrivals", protocol=Arrivals)


@ARRIVALS("clock")
@dataclass(frozen=True)
class Clock:
    """Updates arrive when the network and the devices let them; staleness is what comes of it."""

    server: ClassVar[str] = "buffered"
    clocked: ClassVar[bool] = True


@ARRIVALS("uniform_staleness")
@dataclass(frozen=True)
class UniformStaleness:
    """No clock: every update of aggregation t has a staleness drawn uniformly from 0 ... min(max, t).

    The setting of "Secure Aggregation for Buffered Asynchronous FL" (arXiv 2110.02177, section 6). Network,
    computation times and the rule's concurrency have no effect; availability and failures have. Deadlines are refused.
    """

    server: ClassVar[str] = "drawn"
    clocked: ClassVar[bool] = False

    max: Annotated[int, Field(ge=0, le=100_000, description="largest staleness, in server updates")] = 10
    seconds: Annotated[float, Field(ge=0, le=1e12, description="simulated time between two aggregations")] = 1.0

    @property
    def oldest(self) -> int:
        """That of its distribution."""
        return self.max
