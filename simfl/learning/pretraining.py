"""Clients that train alone before the first round, and whose model is chosen to begin with."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import ClientAlgorithm
from simfl.clients.local_values import LocalContext, LocalResult, Vector
from simfl.core.payload import Download, Upload
from simfl.core.types import Arrays, Job
from simfl.learning.base import Sizes
from simfl.learning.client_accuracies import ClientSamples
from simfl.learning.local_runner import LocalRunner


class ClientPretraining:
    """Trains every client alone; each job begins where its client's last one ended.

    ``sizes`` are what it costs: the initial model down, the trained one up, and all passes.
    """

    def __init__(
        self,
        rounds: int,
        algorithm: ClientAlgorithm,
        initial: Vector,
        clients: Sequence[int],
        validation: ClientSamples,
        runner: LocalRunner,
    ) -> None:
        self.initial, self.validation, self.states = initial, validation, runner.states
        self.models: dict[int, Vector] = dict.fromkeys(clients, initial)
        self.client_states: dict[int, Arrays] = {client: {} for client in clients}
        passes, up = np.zeros(self.states.clients), np.zeros(self.states.clients, dtype=np.int64)
        results: dict[int, LocalResult] = {}
        for turn in range(rounds):
            contexts = [self._context(turn, client) for client in clients]
            for client, job in zip(clients, runner.run(contexts, algorithm, "apart/"), strict=True):
                self.client_states[client], results[client] = job.result.state or {}, job.result
                model = self.models[client] + job.result.upload.update
                personal = algorithm.personal(model, self.client_states[client])
                self.models[client] = model if personal is None else personal
                passes[client] += job.passes
        dense = 4 * len(initial)
        for client in clients:
            up[client] = algorithm.bytes_up(dense, self.client_states[client], results[client])
        self.sizes = Sizes(dense, up, passes)

    def _context(self, turn: int, client: int) -> LocalContext:
        job = Job.of(turn, client, 0, 0.0)
        download = Download(self.models[client], {})
        return LocalContext(
            job, download, self.client_states[client], lambda model: self.validation.accuracy(model, client)
        )

    def best(self, responded: NDArray[np.bool_]) -> int | None:
        """The client that responded whose model has the best mean accuracy over all clients' validation samples."""
        candidates = [client for client in self.models if responded[client]]
        holders = self.validation.holders
        scores = [self.validation.accuracies(self.models[c], lambda _: None)[holders].mean() for c in candidates]
        return candidates[int(np.nanargmax(scores))] if np.isfinite(scores).any() else None

    def start_from(self, client: int) -> Vector:
        first = self.states.algorithm.pretrained_state(self.client_states[client])
        for each in range(self.states.clients):
            self.states.keep_result(each, LocalResult(Upload(self.initial), dict(first)))
        return self.models[client]
