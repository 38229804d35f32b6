"""What devices do: be available at a round's start, compute for a while, sometimes fail after selection.

Each part has a YAML choice (a frozen dataclass) whose ``build`` draws what stays fixed for the run and
returns an object that answers for all clients at once.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.registry import Registry
from simfl.rng import Address, Streams

__all__ = ["AVAILABILITY", "COMPUTATION", "FAILURE", "Availability", "Available", "Computing", "Failing"]

AVAILABILITY = Registry("availability")
COMPUTATION = Registry("computation", number=("constant", "seconds"))
FAILURE = Registry("failure", number=("bernoulli", "probability"))


class Availability(Protocol):
    """The scenario's choice of who is there when; computation and failure are built alike, without names.

    Attributes:
        equal: whether all clients certainly are unavailable equally often.
    """

    equal: bool

    def build(self, scenario: Any, streams: Streams, names: tuple[str, ...] | None = None) -> "Available":
        """Draws what stays fixed for the run; ``names`` are the clients' names in the network, if they have any.

        Raises:
            ScenarioError: a drawn probability is impossible, or a data file is broken.
        """
        ...


class Available(Protocol):
    """A built availability model.

    Attributes:
        dropout: float64 (clients,): long-run probability of being unavailable at a round, or None if unknown.
        independent: whether clients are unavailable independently of one another; True where it is left out.
    """

    dropout: NDArray[np.float64] | None

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        """Who is available for the round that starts at ``now_s``, bool (clients,).

        Called with rising round numbers, none left out; chains keep their last state in :meth:`state`.
        """
        ...

    def state(self) -> dict[str, NDArray[Any]]: ...

    def restore(self, state: dict[str, NDArray[Any]]) -> None: ...


class Computing(Protocol):
    """A built computation model."""

    def duration_s(
        self, clients: NDArray[np.integer], samples: NDArray[np.int64], epochs: float, where: Address
    ) -> NDArray[np.float64]:
        """Seconds of local training for each job, shape (n,).

        Args:
            clients: who computes, shape (n,).
            samples: training samples each holds, shape (n,).
            epochs: local passes over them.
            where: address of the jobs' draws.
        """
        ...


class Failing(Protocol):
    """A built mid-round failure model."""

    def draw(self, clients: NDArray[np.integer], where: Address, phase: str = "work") -> NDArray[np.float64]:
        """Fraction of its work after which each client dies, shape (n,); NaN = it does not fail.

        Args:
            clients: who is at work, shape (n,).
            where: address of the draws.
            phase: at what: ``"work"`` = local training, else a protocol's phase.
        """
        ...
