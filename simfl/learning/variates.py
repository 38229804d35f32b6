"""SCAFFOLD's control variates (Karimireddy et al. 2020, algorithm 1, option II)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.types import Job

__all__ = ["ControlVariates"]


class ControlVariates:
    """The server's variate c and one variate c_i for every client that has trained; all begin at zero.

    What clients report is added to c when a job of a later version is trained, so that all jobs of one version
    meet the same c, in whatever batches they come.

    Args:
        clients: number of all clients, N.
        dimension: d.
    """

    def __init__(self, clients: int, dimension: int) -> None:
        self.clients = clients
        self.common = np.zeros(dimension, dtype=np.float32)
        self.own: dict[int, NDArray[np.float32]] = {}
        self.reported = np.zeros(dimension, dtype=np.float64)
        self.version = -1

    def begin(self, version: int) -> None:
        """Jobs of this version are about to train."""
        if version > self.version:
            self.common = (self.common + self.reported / self.clients).astype(np.float32)
            self.reported[:] = 0
            self.version = version

    def shift(self, client: int) -> NDArray[np.float32] | None:
        """c - c_i, float32 (d,), or None where it is zero."""
        shift = self.common - self.own[client] if client in self.own else self.common
        return shift if shift.any() else None

    def report(self, job: Job, shift: NDArray[np.float32] | None, delta: NDArray[np.float32], path: float) -> None:
        """The client's new variate, c_i - c + (x - y_i) / path, with ``path`` = steps * learning rate of the job."""
        new = delta * np.float32(-1 / path)
        if shift is not None:
            new -= shift
        self.reported += new
        if job.client in self.own:
            self.reported -= self.own[job.client]
        self.own[job.client] = new

    def state(self) -> dict[str, NDArray[Any]]:
        """For checkpoints."""
        known = sorted(self.own)
        own = np.stack([self.own[i] for i in known]) if known else np.zeros((0, len(self.common)), dtype=np.float32)
        return {
            "variates_common": self.common,
            "variates_reported": self.reported.copy(),
            "variates_clients": np.array(known, dtype=np.int64),
            "variates_own": own,
            "variates_version": np.array(self.version),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.common = np.array(state["variates_common"], dtype=np.float32)
        self.reported = np.array(state["variates_reported"], dtype=np.float64)
        own = np.array(state["variates_own"], dtype=np.float32)
        self.own = dict(zip(state["variates_clients"].tolist(), own, strict=True))
        self.version = int(state["variates_version"])
