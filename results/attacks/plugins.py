"""What the table of attacks needs besides simfl: clients of one sample, and noise that clients or the server add."""

from dataclasses import dataclass

import numpy as np

from simfl.learning.partitions.base import PARTITIONS, Split
from simfl.privacy.base import STAGES, Stage


@PARTITIONS("few")
@dataclass(frozen=True)
class Few:
    """The first ``alone`` clients hold one sample each, every other one ``each`` samples of two classes of its own."""

    alone: int = 4
    each: int = 60

    def split(self, data, clients, rng):
        by_class = [rng.permutation(np.flatnonzero(data.y_train == label)).tolist() for label in range(data.classes)]
        parts = [[by_class[client % data.classes].pop()] for client in range(self.alone)]
        for _ in range(clients - self.alone):
            one, other = rng.choice(data.classes, 2, replace=False)
            half = self.each // 2
            parts.append([by_class[one].pop() for _ in range(min(half, len(by_class[one])))])
            parts[-1] += [by_class[other].pop() for _ in range(min(half, len(by_class[other])))]
        return Split.of([np.array(part, dtype=np.int64) for part in parts])


def clipped(vectors, clip_norm):
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors * np.minimum(1, clip_norm / np.maximum(norms, 1e-30))).astype(np.float32)


@STAGES("noise_of")
@dataclass(frozen=True)
class GaussianSum(Stage):
    """Updates are clipped; Gaussian noise of deviation z * clip_norm comes into their sum.

    ``of`` = 0: from the server. Else from the clients, each of whom adds a share so that ``of`` of them make it whole.
    """

    clip_norm: float = 0.05
    z: float = 0.3
    of: int = 0

    def client(self, vectors, jobs, state, streams):
        vectors = clipped(vectors, self.clip_norm)
        if not self.of:
            return vectors
        noise = np.stack([streams("gaussian_sum/client", job.id).normal(size=vectors.shape[1]) for job in jobs])
        return (vectors + noise * (self.z * self.clip_norm / self.of**0.5)).astype(np.float32)

    def server(self, vector, members, state, streams):
        if self.of:
            return vector, state
        noise = streams("gaussian_sum", members.number).normal(size=len(vector))
        return (vector + noise * (self.z * self.clip_norm / members.divisor)).astype(np.float32), state
