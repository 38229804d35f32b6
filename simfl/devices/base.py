"""What devices do: be available at a round's start, compute for a while, sometimes fail after selection.

Each part has a YAML choice (a frozen dataclass) whose ``build`` draws what stays fixed for the run and
returns an object that answers for all clients at once.
"""

from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.answers import checked_numbers, described, read_only
from simfl.errors import PluginError
from simfl.registry import Registry
from simfl.rng import Address, Streams
from simfl.setting import Setting

__all__ = [
    "AVAILABILITY",
    "COMPUTATION",
    "FAILURE",
    "Availability",
    "Available",
    "Computation",
    "Computing",
    "Failing",
    "Failure",
    "checked_available",
    "checked_deaths",
    "checked_durations_s",
]


class Availability(Protocol):
    """The scenario's choice of who is there when.

    Attributes:
        equal: whether all clients certainly are unavailable equally often.
        independent: whether clients certainly are unavailable independently of one another.
        timeless: whether rounds and chance alone certainly decide: not simulated time, which tells who took part.
    """

    equal: bool = False
    independent: bool = False
    timeless: bool = False

    @abstractmethod
    def build(self, setting: Setting, streams: Streams, names: tuple[str, ...] | None = None) -> "Available":
        """Draws what stays fixed for the run; ``names`` are the clients' names in the network, if they have any.

        Raises:
            ScenarioError: a drawn probability is impossible, or a data file is broken.
        """
        ...


class Computation(Protocol):
    """The scenario's choice of how long local training takes."""

    @abstractmethod
    def build(self, setting: Setting, streams: Streams) -> "Computing":
        """Draws what stays fixed for the run.

        Raises:
            ScenarioError: a data file is broken.
        """
        ...


class Failure(Protocol):
    """The scenario's choice of who dies in the middle of its work."""

    def rates(self, setting: Setting, streams: Streams) -> NDArray[np.float64] | None:
        """Probability that each client fails at work, float64 (clients,), independently of all else; None = unknown."""
        return None

    @abstractmethod
    def build(self, setting: Setting, streams: Streams) -> "Failing":
        """Draws what stays fixed for the run.

        Raises:
            ScenarioError: a drawn probability is impossible.
        """
        ...


AVAILABILITY = Registry("availability", protocol=Availability)
COMPUTATION = Registry("computation", number=("constant", "seconds"), protocol=Computation)
FAILURE = Registry("failure", number=("bernoulli", "probability"), protocol=Failure)


class Available(Protocol):
    """A built availability model.

    Attributes:
        dropout: float64 (clients,): long-run probability of being unavailable at a round, or None if unknown.
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


# -- what a plugin answered, looked at once -----------------------------------------------------------


def checked_available(available: Any, clients: int, model: object) -> NDArray[np.bool_]:
    """Who is available, as an array that cannot be changed.

    Raises:
        PluginError: it is not bool (clients,).
    """
    if not isinstance(available, np.ndarray) or available.dtype != bool or available.shape != (clients,):
        raise PluginError(model, f"draw must give bool of shape ({clients},), not {described(available)}")
    return read_only(available)


def checked_durations_s(seconds: Any, jobs: int, model: object) -> NDArray[np.float64]:
    """The durations, if each is a finite number of seconds, 0 or more.

    Raises:
        PluginError: one is not, or there is not one a job.
    """
    return checked_numbers(seconds, jobs, model, "duration_s", 0.0, np.inf, "finite seconds, 0 or more")


def checked_deaths(fractions: Any, jobs: int, model: object) -> NDArray[np.float64]:
    """The fractions of their computation at which jobs die, if each lies in [0, 1] or is NaN: it does not die.

    Raises:
        PluginError: one is another number, or there is not one a job.
    """
    return checked_numbers(fractions, jobs, model, "draw", 0.0, 1.0, "fractions from 0 to 1, or NaN", nan=True)
