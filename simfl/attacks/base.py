"""What an observer is: it sees exactly what the server sees, and guesses; only the scorer holds the truth."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.lab import Bench, Vault
from simfl.registry import Registry
from simfl.rng import Streams
from simfl.types import Arrays, Job, Total

__all__ = ["OBSERVERS", "Curve", "Finding", "Inside", "Observer", "Picture", "Seen", "Truth"]


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
        total: the sum as it arrived, with its row of weights and shares, before the server's stages.
        jobs: what was asked of whom, n, by ascending client.
        sent: the models that the clients had received, by version.
        vectors: each client's vector as it arrived, (n, d); None unless the protocol shows them and they are not coded.
        model: the new global model, (d,).
        before: the global model before it, (d,); with ``model`` all that the public sees.
        read: the sum in the coordinates of the model, (d,): the total's vector or, where a stage codes what clients
            send, what the server's stages decode.
        inside: what the observer's coalition knows; None where it has none in the sum.
    """

    round: int
    time_s: float
    total: Total
    jobs: tuple[Job, ...]
    sent: Mapping[int, NDArray[np.float32]]
    vectors: NDArray[np.float32] | None
    model: NDArray[np.float32]
    before: NDArray[np.float32]
    read: NDArray[np.float32]
    inside: Inside | None = None


class Truth(NamedTuple):
    """What only the scorer knows of an aggregation.

    Attributes:
        clients: int32 (n,), ascending.
        updates: float32 (n, d): what the clients had to send, before any stage.
        memory: what :meth:`Observer.remember` has kept of this and earlier aggregations.
    """

    clients: NDArray[np.int32]
    updates: NDArray[np.float32]
    memory: Mapping[str, Any] = {}


class Picture(NamedTuple):
    """A sample beside what was recovered of it, values in [0, 1], (channels, height, width).

    Attributes:
        title: whose it is.
        true: the sample.
        found: what the attack made of it.
        guess: what one would say without an attack: the mean sample.
    """

    title: str
    true: NDArray[np.float32]
    found: NDArray[np.float32]
    guess: NDArray[np.float32]


class Curve(NamedTuple):
    """A receiver operating characteristic: rates of false and true alarms, ascending."""

    title: str
    false: NDArray[np.float64]
    true: NDArray[np.float64]


class Finding(NamedTuple):
    """What came of an attack on the finished run.

    Attributes:
        numbers: by name; those of the attack's ``finals`` stand in the summary.
        pictures, curves: for the report.
    """

    numbers: Mapping[str, float]
    pictures: tuple[Picture, ...] = ()
    curves: tuple[Curve, ...] = ()


class Observer(Protocol):
    """A frozen dataclass whose methods are pure; its state, and the scorer's memory, are saved in checkpoints.

    Attributes:
        columns: the errors that are columns of rounds.csv, too.
        finals: the numbers of its finding that stand in the summary.
    """

    columns: tuple[Column, ...] = ()
    finals: tuple[Column, ...] = ()

    def start(self, clients: int, dimension: int) -> Arrays:
        """Its state before the first aggregation."""
        return {}

    def coalition(self, clients: int) -> NDArray[np.int32]:
        """Clients whose knowledge it shares, beside what the server sees; nobody, as a rule."""
        return np.empty(0, dtype=np.int32)

    @abstractmethod
    def see(self, seen: Seen, state: Arrays, streams: Streams) -> tuple[Any, Arrays]:
        """A guess, or None, and its next state. Its draws are of the purpose "attack"."""
        ...

    def recall(self, clients: int, dimension: int) -> Arrays:
        """The scorer's memory before the first aggregation."""
        return {}

    def remember(self, truth: Truth, memory: Arrays, streams: Streams) -> Arrays:
        """The scorer's memory after an aggregation; the observer never sees it."""
        return memory

    def error(self, guess: Any, truth: Truth) -> Mapping[str, float]:
        """How far the guess is from the truth, by name; rows of ``attacks.csv``."""
        return {}

    # -- what becomes of it after the last aggregation ---------------------------------------------------

    def question(self, vault: Vault, streams: Streams) -> Any:
        """What the scorer asks the attacker, e.g. which of these samples were trained on."""
        return None

    def exploit(self, question: Any, state: Arrays, bench: Bench, streams: Streams) -> Any:
        """What the attacker answers, with all that it saw; None = nothing."""
        return None

    def judge(self, answer: Any, vault: Vault, bench: Bench, streams: Streams) -> Finding:
        """How right the answer is."""
        return Finding({})


OBSERVERS = Registry("attack", protocol=Observer)
