"""Clients that train alone before the first round, and whose model is chosen to begin with."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.learning.base import Sizes
from simfl.learning.own import OwnSamples
from simfl.payload import Download
from simfl.types import Arrays, Job
from simfl.variant import ClientVariant, Done, Visit

__all__ = ["Apart"]

Vector = NDArray[np.float32]
Play = Callable[[Sequence[Visit], ClientVariant], Sequence[tuple[Done, float]]]


class Apart:
    """Trains every client alone; each job begins where its client's last one ended.

    Args:
        rounds: jobs of each client.
        variant: what they play.
        initial: the model they begin with, (d,).
        clients: who holds samples.
        count: number of all clients.
        validated: their validation samples.
        play: how visits end, and in how many passes.

    Attributes:
        sizes: what it costs: the initial model down, the trained one up, and all passes.
        models: the trained model of each client, (d,) each.
        own: what each client keeps.
    """

    def __init__(
        self,
        rounds: int,
        variant: ClientVariant,
        initial: Vector,
        clients: Sequence[int],
        count: int,
        validated: OwnSamples,
        play: Play,
    ) -> None:
        self.validated = validated
        self.models: dict[int, Vector] = dict.fromkeys(clients, initial)
        self.own: dict[int, Arrays] = {client: {} for client in clients}
        passes = np.zeros(count)
        ends: dict[int, Done] = {}
        for turn in range(rounds):
            visits = [self._visit(turn, client) for client in clients]
            for client, (done, made) in zip(clients, play(visits, variant), strict=True):
                self.own[client], ends[client] = done.own or {}, done
                model = self.models[client] + done.upload.update
                own = variant.personal(model, self.own[client])
                self.models[client] = model if own is None else own
                passes[client] += made
        dense = 4 * len(initial)
        up = np.zeros(count, dtype=np.int64)
        for client in clients:
            up[client] = variant.bytes_up(dense, self.own[client], ends[client])
        self.sizes = Sizes(dense, up, passes)

    def _visit(self, turn: int, client: int) -> Visit:
        job = Job(turn << 32 | client, client, 0, 0.0)
        download = Download(self.models[client], {})
        return Visit(job, download, self.own[client], lambda model: self.validated.accuracy(model, client))

    def best(self, heard: NDArray[np.bool_]) -> int | None:
        """The client, of those heard, whose model has the best mean accuracy over all clients' validation samples."""
        candidates = [client for client in self.models if heard[client]]
        holders = self.validated.holders
        scores = [self.validated.accuracies(self.models[c], lambda _: None)[holders].mean() for c in candidates]
        return candidates[int(np.nanargmax(scores))] if np.isfinite(scores).any() else None
