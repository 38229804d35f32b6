"""Attackers who know nothing of others' updates."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, Attacker, AttackView
from simfl.core.types import Floats, Vectors


@CLIENT_AGENTS("sign_flip")
@dataclass(frozen=True)
class SignFlip(Attacker):
    """Trains honestly and sends the update with the opposite sign. Knows its own update only.

    Reference: Li, Xu, Chen, Giannakis and Ling, "RSA: Byzantine-robust stochastic aggregation methods", AAAI 2019
    (sign-flipping attack, here of size 1).
    """

    alone = True

    def sends(self, view: AttackView) -> Vectors:
        return -view.deltas


@CLIENT_AGENTS("gaussian_noise")
@dataclass(frozen=True)
class GaussianNoise(Attacker):
    """Sends normal noise in place of its update. Knows nothing.

    Reference: Blanchard et al., "Machine learning with adversaries", NeurIPS 2017 (Gaussian Byzantine workers).
    """

    std: Annotated[float, Field(gt=0, description="standard deviation of each coordinate")]

    example = {"std": 1.0}

    def sends(self, view: AttackView) -> Vectors:
        d = view.deltas.shape[1]
        return np.stack([rng.normal(0, self.std, d) for rng in view.rngs]).astype(np.float32)


@CLIENT_AGENTS("model_replacement")
@dataclass(frozen=True)
class ModelReplacement(Attacker):
    """Sends its update times a factor, so that after averaging the model is nearly its own. Knows how many updates are
    in the sum, not what they are; for poisoned samples see ``backdoor``, which scales as well.

    Reference: Bagdasaryan et al., "How to backdoor federated learning", AISTATS 2020 (model replacement).
    """

    boost: Annotated[
        float | None, Field(gt=0, description="the factor; null = number of updates in the sum, over that of attackers")
    ] = None

    def sends(self, view: AttackView) -> Vectors:
        factor = self.boost or view.updates / len(view.deltas)
        scaled: Vectors = view.deltas * np.float32(factor)
        return scaled


@CLIENT_AGENTS("free_rider")
@dataclass(frozen=True)
class FreeRider(Attacker):
    """Sends what costs no data: the server's last step again, or noise as large as that. It answers
    when a standard client would, so as not to be noticed. Knows the models that it has received.

    Reference: Lin, Du and Liu, "Free-riders in federated learning: attacks and defenses", arXiv 1911.12560 (random
    weights, there uniform; delta weights: the difference of the last two global models).
    """

    resends: Annotated[bool, Field(description="the server's last step; else uniform noise of its norm")] = True

    reads_previous = True

    def sends(self, view: AttackView) -> Vectors:
        if self.resends:
            return np.tile(view.previous, (len(view.deltas), 1))
        d, norm = view.deltas.shape[1], float(np.linalg.norm(view.previous.astype(np.float64)))
        noise = np.stack([rng.uniform(-1, 1, d) for rng in view.rngs])
        return (noise * norm / np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-12)).astype(np.float32)


@CLIENT_AGENTS("liar")
@dataclass(frozen=True)
class Liar(Attacker):
    """Reports its number of samples, its losses and how long a job takes it times factors. Knows what it is asked.

    Nobody believes more samples than the largest client holds. What the server measures itself, the time until an
    answer has arrived, is as it is: policies that go by that (Oort's seconds) cannot be lied to about speed.
    """

    losses: Annotated[float, Field(gt=0, description="times the true losses")] = 1.0
    samples: Annotated[float, Field(gt=0, description="times the true number of samples")] = 1.0
    seconds: Annotated[float, Field(gt=0, description="times the true estimate of a job's seconds")] = 1.0

    example = {"losses": 10.0}

    def reports(self, name: str, values: Floats) -> Floats:
        factor = {"loss": self.losses, "loss_rms": self.losses, "samples": self.samples, "estimate_s": self.seconds}
        return values * factor.get(name, 1.0)
