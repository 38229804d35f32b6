"""Compression between a client's stages and the sum: what clients send, and what they keep for their next update."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.core.coverage import compression_place
from simfl.core.types import Arrays, Job
from simfl.core.validation import checked_vectors
from simfl.training.base import Rule

Vectors = NDArray[np.float32]


class CompressionStep:
    """The clients' compression and, with error feedback, their residuals.

    Where everybody in a sum sends the same coordinates, only these are added up (:meth:`pack`). A client's residual is
    what compression has left out of its updates so far; it changes once an update is summed (:meth:`keep`). An update
    that is not (its client failed, was late, holds no samples, or its unit was given up) leaves it as it was, and so
    does one that holds no number.

    Args:
        parts: the built scenario.

    Attributes:
        place: how many of the stages work before it.
        residuals: float32 (d,), of each client that has been summed.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.compression, self.streams = parts.compression, parts.streams
        self.place = compression_place(parts.stages)
        self.dimension, self.length = parts.lengths[self.place : self.place + 2]
        self.residuals: dict[int, Vectors] = {}
        self._left_out: dict[int, Vectors] = {}

    def client(self, vectors: Vectors, jobs: tuple[Job, ...]) -> Vectors:
        """What the clients send, (n, d'), of their updates, (n, d)."""
        self._left_out = {}
        if not (self.compression.codes and vectors.size):
            return vectors
        coded = self._code(vectors, jobs)
        return self.pack(coded, jobs[0].selection)

    def _code(self, vectors: Vectors, jobs: tuple[Job, ...]) -> Vectors:
        """What the server reads of each message, (n, d); an update that holds no number stays as it is."""
        feedback = self.compression.error_feedback
        if feedback:
            vectors = np.stack([self._with_residual(row, job) for row, job in zip(vectors, jobs, strict=True)])
        sound = np.asarray(np.isfinite(vectors).all(axis=1))
        finite = vectors if sound.all() else np.where(sound[:, None], vectors, np.float32(0))
        sent = self._compress(finite, jobs)
        if feedback:
            rows = zip(jobs, finite - sent, sound.tolist(), strict=True)
            self._left_out = {job.client: row for job, row, is_sound in rows if is_sound}
        return sent if sound.all() else np.where(sound[:, None], sent, vectors)

    def keep(self, clients: Iterable[int]) -> None:
        """The updates of these clients have been summed: what was left out of them are the residuals now."""
        self.residuals |= {client: self._left_out[client].copy() for client in clients if client in self._left_out}
        self._left_out = {}

    def _compress(self, vectors: Vectors, jobs: tuple[Job, ...]) -> Vectors:
        sent = self.compression.client(vectors, jobs, self.streams)
        checked_vectors(sent, vectors.shape, f"compression '{self.compression.name}'", "client gives")
        return sent

    def _with_residual(self, vector: Vectors, job: Job) -> Vectors:
        residual = self.residuals.get(job.client)
        return vector if residual is None else vector + residual

    def pack(self, vectors: Vectors, number: int) -> Vectors:
        """The coordinates of (..., d) that are added up in round ``number``, (..., d')."""
        return vectors if (sent := self._sum_coordinates(vectors, number)) is None else vectors[..., sent]

    def unpack(self, vectors: Vectors, number: int) -> Vectors:
        """Undoes :meth:`pack`: all others are 0."""
        if (sent := self._sum_coordinates(vectors, number)) is None:
            return vectors
        whole = np.zeros((*vectors.shape[:-1], self.dimension), dtype=vectors.dtype)
        whole[..., sent] = vectors
        return whole

    def _sum_coordinates(self, vectors: Vectors, number: int) -> NDArray[np.int64] | None:
        """The coordinates that are added up; None = all, or vectors are empty since nothing is learned."""
        return None if self.length == self.dimension or not vectors.shape[-1] else self.coordinates(number)

    def coordinates(self, number: int) -> NDArray[np.int64] | None:
        """The coordinates that everybody knows to be sent in round, or selection, ``number``."""
        return self.compression.coordinates(self.dimension, number, self.streams)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The residuals as named arrays; nothing where there are none."""
        if not self.residuals:
            return {}
        clients = sorted(self.residuals)
        return {
            "clients": np.array(clients, dtype=np.int64),
            "residuals": np.stack([self.residuals[client] for client in clients]),
        }

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.residuals = dict(zip(np.asarray(state["clients"]).tolist(), state["residuals"])) if state else {}
