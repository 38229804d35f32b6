"""What an observer is: it sees exactly what the server sees, and guesses; only the scorer holds the truth."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.registry import Registry
from simfl.rng import Streams
from simfl.types import Arrays, Job, Total

__all__ = ["OBSERVERS", "Inside", "Observer", "Seen", "Truth"]


class Inside(NamedTuple):
    """What clients that work together know of an aggregation besides.

    Attributes:
        clients: those in it, int32 (c,), ascending.
        vectors: what each has added to the sum, weight included, (c, d).
        divisor: what the sum was divided by.
        known: what the protocol lets them take off the sum, (d,), by strategy.
    """

    clients: NDArray[np.int32]
    vectors: NDArray[np.float64]
    divisor: float
    known: Mapping[str, NDArray[Any]]


class Seen(NamedTuple):
    """One aggregation as the server sees it.

    Attributes:
        round: its number, from 0.
        time_s: simulated time.
        total: the sum as it arrived, with its row of weights, before the server's stages.
        jobs: what was asked of whom, n, by ascending client.
        sent: the models that the clients had received, by version.
        vectors: each client's vector as it arrived, (n, d); None unless the protocol shows them.
        model: the new global model, (d,).
        inside: what the observer's coalition knows; None where it has none in the sum.
    """

    round: int
    time_s: float
    total: Total
    jobs: tuple[Job, ...]
    sent: Mapping[int, NDArray[np.float32]]
    vectors: NDArray[np.float32] | None
    model: NDArray[np.float32]
    inside: Inside | None = None


class Truth(NamedTuple):
    """What only the scorer knows of an aggregation.

    Attributes:
        clients: int32 (n,), ascending.
        updates: float32 (n, d): what the clients' training made, before any stage.
    """

    clients: NDArray[np.int32]
    updates: NDArray[np.float32]


class Observer(Protocol):
    """A frozen dataclass whose methods are pure; its state is saved in checkpoints."""

    def start(self, clients: int, dimension: int) -> Arrays:
        """Its state before the first aggregation."""
        return {}

    def coalition(self, clients: int) -> NDArray[np.int32]:
        """Clients whose knowledge it shares, beside what the server sees; nobody, as a rule."""
        return np.empty(0, dtype=np.int32)

    @abstractmethod
    def see(self, seen: Seen, state: Arrays, streams: Streams) -> tuple[Any, Arrays]:
        """A guess, or None, and its next state."""
        ...

    @abstractmethod
    def error(self, guess: Any, truth: Truth) -> Mapping[str, float]:
        """How far the guess is from the truth, by name; rows of ``attacks.csv``."""
        ...


OBSERVERS = Registry("attack", protocol=Observer)
