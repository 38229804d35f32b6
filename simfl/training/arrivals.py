"""What decides how stale an update is when it arrives: the simulated clock, or a distribution."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

from pydantic import Field

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry


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
    computation times, deadlines and the rule's concurrency have no effect; availability and failures have.
    """

    server: ClassVar[str] = "drawn"
    clocked: ClassVar[bool] = False

    max: Annotated[int, Field(ge=0, le=100_000, description="largest staleness, in server updates")] = 10
    seconds: Annotated[float, Field(ge=0, le=1e12, description="simulated time between two aggregations")] = 1.0

    @property
    def oldest(self) -> int:
        """That of its distribution."""
        return self.max
