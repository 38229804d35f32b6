"""What decides how stale an update is when it arrives: the simulated clock, or a distribution."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.registry import Registry

__all__ = ["ARRIVALS", "Clock", "UniformStaleness"]

ARRIVALS = Registry("arrivals")


@ARRIVALS("clock")
@dataclass(frozen=True)
class Clock:
    """Updates arrive when the network and the devices let them; staleness is what comes of it."""


@ARRIVALS("uniform_staleness")
@dataclass(frozen=True)
class UniformStaleness:
    """No clock: every update of aggregation t has a staleness drawn uniformly from 0 ... min(max, t).

    The setting of "Secure Aggregation for Buffered Asynchronous FL" (arXiv 2110.02177, section 6). Network,
    computation times, deadlines and the rule's concurrency have no effect; availability and failures have.
    """

    max: Annotated[int, Field(ge=0, le=100_000, description="largest staleness, in server updates")] = 10
    seconds: Annotated[float, Field(ge=0, le=1e12, description="simulated time between two aggregations")] = 1.0
