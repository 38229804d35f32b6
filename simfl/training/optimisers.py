"""The server's optimiser: what it does with the averaged update, seen as a gradient that points downhill.

Source of the adaptive ones: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, algorithm 2. As there, no bias
is corrected, and the second moment starts at epsilon squared.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry
from simfl.training.base import State

Vector = NDArray[np.float32]
Decay = Annotated[float, Field(ge=0, lt=1)]
Epsilon = Annotated[
    float, Field(gt=0, le=1e6, description="degree of adaptivity (tau in the paper): added to the root")
]


class ServerOptimiser(Plugin, Protocol):
    """A frozen dataclass whose methods are pure."""

    def start(self, dimension: int) -> State:
        """The state before the first step."""
        return {}

    @abstractmethod
    def step(self, delta: Vector, state: State, rate: float) -> tuple[Vector, State]:
        """What is added to the model, float32 (d,), given the averaged update (d,) and the server's learning rate."""


SERVER_OPTIMISERS = Registry[ServerOptimiser]("server_optimiser", protocol=ServerOptimiser)


@SERVER_OPTIMISERS("sgd")
@dataclass(frozen=True)
class ServerSgd:
    """The update times the server's learning rate; with momentum FedAvgM (Hsu, Qi and Brown 2019)."""

    momentum: Annotated[Decay, Field(description="share of the last step that is kept; 0 = plain averaging")] = 0.0

    def start(self, dimension: int) -> State:
        return {"velocity": np.zeros(dimension, dtype=np.float32)} if self.momentum else {}

    def step(self, delta: Vector, state: State, rate: float) -> tuple[Vector, State]:
        if not self.momentum:
            return np.float32(rate) * delta, state
        velocity = np.float32(self.momentum) * state["velocity"] + delta
        return np.float32(rate) * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class _Adaptive:
    """Both moments, and the step they make; subclasses say how the second one changes."""

    if TYPE_CHECKING:
        beta1: float
        epsilon: float

        def _second(self, second: Vector, square: Vector) -> Vector: ...

    def start(self, dimension: int) -> State:
        second = np.full(dimension, self.epsilon**2, dtype=np.float32)
        return {"first": np.zeros(dimension, dtype=np.float32), "second": second}

    def step(self, delta: Vector, state: State, rate: float) -> tuple[Vector, State]:
        first = np.float32(self.beta1) * state["first"] + np.float32(1 - self.beta1) * delta
        second = self._second(state["second"], np.square(delta))
        update = np.float32(rate) * first / (np.sqrt(second) + np.float32(self.epsilon))
        return update, {"first": first, "second": second}


@SERVER_OPTIMISERS("adam")
@dataclass(frozen=True)
class Adam(_Adaptive):
    """FedAdam: the second moment is a moving average."""

    beta1: Annotated[Decay, Field(description="decay of the first moment")] = 0.9
    beta2: Annotated[Decay, Field(description="decay of the second moment")] = 0.99
    epsilon: Epsilon = 1e-3

    def _second(self, second: Vector, square: Vector) -> Vector:
        return np.float32(self.beta2) * second + np.float32(1 - self.beta2) * square


@SERVER_OPTIMISERS("yogi")
@dataclass(frozen=True)
class Yogi(Adam):
    """FedYogi: the second moment moves towards the square by a share of the square, not of the difference."""

    def _second(self, second: Vector, square: Vector) -> Vector:
        return second - np.float32(1 - self.beta2) * square * np.sign(second - square)


@SERVER_OPTIMISERS("adagrad")
@dataclass(frozen=True)
class Adagrad(_Adaptive):
    """FedAdagrad: the second moment is a sum."""

    beta1: Annotated[Decay, Field(description="decay of the first moment")] = 0.0
    epsilon: Epsilon = 1e-3

    def _second(self, second: Vector, square: Vector) -> Vector:
        return second + square
