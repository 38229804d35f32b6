"""Attackers who know nothing of others' updates: they change what they send, or the samples that they train on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, Attacker, AttackView
from simfl.core.types import Floats, Integers, Predictions, Vectors


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

    @property
    def tells_samples(self) -> bool:
        """Unless it is honest about them."""
        return self.samples != 1

    def reports(self, name: str, values: Floats) -> Floats:
        factor = {"loss": self.losses, "loss_rms": self.losses, "samples": self.samples, "estimate_s": self.seconds}
        return values * factor.get(name, 1.0)


Label = Annotated[int, Field(ge=0, description="a class")]
Predict = Callable[..., Predictions | None]


@CLIENT_AGENTS("label_flip")
@dataclass(frozen=True)
class LabelFlip(Attacker):
    """Trains on samples with other labels than they have: those of a source class, or all. Knows its own samples.

    Success is the share of the test samples of these classes that the model says to be what they were changed to.

    References: Tolpegin et al., "Data poisoning attacks against federated learning systems", ESORICS 2020 (source to
    target); Fang et al., "Local model poisoning attacks to Byzantine-robust federated learning", USENIX Security 2020
    (class l of L to L - l - 1, here without source and target).
    """

    source: Annotated[Label | None, Field(description="the class that it changes; null = all")] = None
    target: Annotated[
        Label | None, Field(description="what it changes it to; null = the class as far from the end")
    ] = None

    alone = True

    def _flip(self, labels: Integers, classes: int) -> Integers:
        to = classes - 1 - labels if self.target is None else np.full_like(labels, min(self.target, classes - 1))
        return to if self.source is None else np.where(labels == self.source, to, labels)

    def poisons(
        self, x: NDArray[Any], y: Integers, classes: int, rng: np.random.Generator
    ) -> tuple[NDArray[Any], Integers]:
        return x, self._flip(y, classes)

    def success(self, predict: Predict) -> float | None:
        """None where no test sample is of these classes, or nothing is classified."""
        if (seen := predict()) is None:
            return None
        wanted = self._flip(seen.labels, seen.classes)
        return _share(seen.predicted == wanted, wanted != seen.labels)


@CLIENT_AGENTS("backdoor")
@dataclass(frozen=True)
class Backdoor(Attacker):
    """Puts a mark into some of its samples and calls these a target class, so that the model calls all marked samples
    so; it may send more than its update, so that the mark outweighs the others. Knows its own samples.

    The mark is a square in the last corner of an image, or the last features of other samples. Success is the share of
    the test samples of other classes that the model says to be the target when they are marked.

    References: Gu, Dolan-Gavitt and Garg, "BadNets", arXiv 1708.06733 (pattern backdoor); Bagdasaryan et al., "How to
    backdoor federated learning", AISTATS 2020 (the boost: constrain-and-scale without a constraint).
    """

    target: Label
    side: Annotated[int, Field(ge=1, description="of the square, pixels; or so many features")] = 3
    value: Annotated[float, Field(description="of the mark, as samples are scaled")] = 1.0
    share: Annotated[float, Field(gt=0, le=1, description="of its samples that it marks")] = 0.5
    boost: Annotated[float, Field(gt=0, description="its update is sent so many times as large")] = 1.0

    example = {"target": 0}

    @property
    def alone(self) -> bool:  # type: ignore[override]
        """Its update, no longer than that."""
        return self.boost <= 1

    def sends(self, view: AttackView) -> Vectors:
        sent: Vectors = view.deltas * np.float32(self.boost)
        return sent

    def stamp(self, x: NDArray[Any]) -> NDArray[Any]:
        """The samples, (n, ...), with the mark."""
        x = x.copy()
        corner = (..., slice(-self.side, None), slice(-self.side, None))
        x[corner if x.ndim == 4 else corner[:2]] = self.value
        return x

    def poisons(
        self, x: NDArray[Any], y: Integers, classes: int, rng: np.random.Generator
    ) -> tuple[NDArray[Any], Integers]:
        x, y = x.copy(), y.copy()
        some = rng.permutation(len(x))[: int(np.ceil(self.share * len(x)))]
        x[some], y[some] = self.stamp(x[some]), min(self.target, classes - 1)
        return x, y

    def success(self, predict: Predict) -> float | None:
        """None where all test samples are of the target, or nothing is classified."""
        if (seen := predict(self.stamp)) is None:
            return None
        target = min(self.target, seen.classes - 1)
        return _share(seen.predicted == target, seen.labels != target)


def _share(hits: NDArray[np.bool_], among: NDArray[np.bool_]) -> float | None:
    return float(hits[among].mean()) if among.any() else None
