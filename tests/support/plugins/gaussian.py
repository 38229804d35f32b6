"""Clipping with Gaussian noise on the sum, and an accountant of zero-concentrated privacy loss.

A client's sum of squared sensitivities over noise, Σ (w C / σ)² / 2, is its rho; see Bun and Steinke 2016, Lemma 2.3.
"""

from dataclasses import dataclass

import numpy as np

from simfl.plugins import Column
from simfl.plugins.privacy import ACCOUNTANTS, STAGES, Accountant, History, Stage


@STAGES("gaussian_sum")
@dataclass(frozen=True)
class CentralGaussian(Stage):
    """Updates are clipped to ``clip_norm``; the server adds N(0, (z clip_norm)²) to their sum."""

    clip_norm: float = 1.0
    z: float = 1.0

    columns = (Column("noise_std", "Noise", "number", "Standard deviation of the noise in the mean.", -1, None),)

    def client(self, vectors, jobs, state, streams):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors * np.minimum(1, self.clip_norm / np.maximum(norms, 1e-30))).astype(np.float32)

    def server(self, vector, members, state, streams):
        noise = streams("gaussian_sum", members.number).normal(size=len(vector))
        return (vector + noise * (self.z * self.clip_norm / members.divisor)).astype(np.float32), state

    def facts(self, members, state):
        noise = self.z * self.clip_norm
        return {"sensitivity": self.clip_norm + members.rounding, "std": noise, "noise_std": noise / members.divisor}


@ACCOUNTANTS("zcdp")
@dataclass(frozen=True)
class Zcdp(Accountant):
    """The largest rho of any client so far."""

    columns = (
        Column(
            "rho_max", "Largest ρ", "number", "Largest zero-concentrated privacy loss of a client.", -1,
            observer="all who see the models", protects="a client's updates", assumes="one run",
        ),
    )  # fmt: skip

    def accounts(self, history: History):
        (matrix,) = history.participation.values()
        (facts,) = history.facts
        share = facts["sensitivity"] / facts["std"]
        each = matrix.multiply((np.nan_to_num(share) ** 2 / 2)[:, None]).multiply(matrix).tocsr()
        total, rho = np.zeros(matrix.shape[1]), []
        for t in range(matrix.shape[0]):
            total += each[[t]].toarray()[0]
            rho.append(float(total.max()))
        return {"rho_max": rho}
