"""The real clock, read for logs of real clients and by clients that pretend to be slow.

No result of a run may depend on it: what is written with it lies beside the results and is never compared
(:mod:`simfl.deployment.remote.job_times`). Nothing else in simfl reads a clock.
"""

from time import monotonic, sleep, time  # noqa: TID251  the one module that may
from typing import Protocol


class ClockSource(Protocol):
    """A clock that can be waited for; tests have one that no real second passes on."""

    def now_s(self) -> float:
        """Seconds, never decreasing."""

    def sleep(self, seconds: float) -> None:
        """Waits; no time, or a negative one, is over at once."""


class WallClock:
    """Seconds since 1970, counted from its creation by a clock that nobody can set."""

    def __init__(self) -> None:
        self._offset_s = time() - monotonic()

    def now_s(self) -> float:
        return self._offset_s + monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            sleep(seconds)
