"""Clients that are processes of their own: their jobs and updates."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.core.types import Job


class JobRequest(NamedTuple):
    """A job for a remote client.

    Attributes:
        job: its job.
        model: the model that it downloads, float32 (d,).
        samples: that it is trained on, each pass counted; 0 = not known.
    """

    job: Job
    model: NDArray[np.float32]
    samples: int = 0


class JobResult(NamedTuple):
    """A remote client's update.

    Attributes:
        delta: trained model minus downloaded model, float32 (d,), finite.
        loss: mean training loss of its last pass.
    """

    delta: NDArray[np.float32]
    loss: float


class RemoteClients(Protocol):
    """Clients that are processes of their own, or a record of what they once sent."""

    def request(self, requests: Sequence[JobRequest]) -> None:
        """Hands out some jobs, and does not wait."""
        ...

    def collect(self, requests: Sequence[JobRequest]) -> list[JobResult]:
        """The updates of jobs that were requested, in their order; waits for them.

        Raises:
            RemoteClientError: a job has failed.
            IntegrityError: a record does not belong to these jobs.
        """
        ...

    def stored_updates(self) -> int:
        """How many updates are on disk: a checkpoint rests on them."""
        ...

    def finalise(self) -> None:
        """Writes the table of all updates, after the last job."""
        ...


class RemoteClientError(SimflError):
    """A remote client did not deliver what the run needs (exit 3); the message names the job."""

    exit_code = 3
