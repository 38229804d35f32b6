"""Clients that are processes of their own: what they are asked for, and what they send."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.errors import SimflError
from simfl.types import Job

__all__ = ["Asked", "Outside", "OutsideError", "Sent"]


class Asked(NamedTuple):
    """A job for a client outside.

    Attributes:
        job: its job.
        model: the model that it downloads, float32 (d,).
    """

    job: Job
    model: NDArray[np.float32]


class Sent(NamedTuple):
    """What it has made of it.

    Attributes:
        delta: trained model minus downloaded model, float32 (d,), finite.
        loss: mean training loss of its last pass.
    """

    delta: NDArray[np.float32]
    loss: float


class Outside(Protocol):
    """Who trains what a backend does not train itself: other processes, or a record of what they once sent."""

    def ask(self, asked: Sequence[Asked]) -> None:
        """Hands out some jobs, and does not wait."""
        ...

    def take(self, asked: Sequence[Asked]) -> list[Sent]:
        """What was sent for jobs that were asked for, in their order; waits for it.

        Raises:
            OutsideError: a job has failed.
            IntegrityError: a record does not belong to these jobs.
        """
        ...

    def kept(self) -> int:
        """How many updates are on disk: a checkpoint rests on them."""
        ...

    def conclude(self) -> None:
        """No job comes any more: whatever it takes to play the run again is on disk from now on."""
        ...


class OutsideError(SimflError):
    """A client outside did not deliver what the run needs (exit 3); the message names the job."""

    exit_code = 3
