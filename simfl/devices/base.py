"""What devices do: be available at a round's start, compute for a while, sometimes fail after selection.

Each part has a YAML choice (a frozen dataclass) whose ``build`` draws what stays fixed for the run and
returns an object that answers for all clients at once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Bools, Floats, Integers
from simfl.core.validation import checked_numbers, describe_type, read_only


class Availability(Plugin, Protocol):
    """The scenario's choice of who is there when.

    Client 0 is there in rounds 0 and 1, client 2 in rounds 1 and 2, client 1 never:

    >>> from types import SimpleNamespace
    >>> from simfl.devices.trace import TraceAvailability
    >>> trace = TraceAvailability(inline=(("0", 0, 2), ("2", 1, 3)), unit="rounds")
    >>> built = trace.build(SimpleNamespace(clients=3), Streams(0))
    >>> [np.flatnonzero(built.draw(t, now_s=60.0 * t)).tolist() for t in range(4)]
    [[0], [0, 2], [2], []]

    Attributes:
        equal_rates: whether all clients certainly are unavailable equally often.
        independent: whether clients certainly are unavailable independently of one another.
        timeless: whether rounds and chance alone certainly decide: not simulated time, which tells who took part.
    """

    equal_rates: bool = False
    independent: bool = False
    timeless: bool = False

    @abstractmethod
    def build(self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None) -> "Available":
        """Draws what stays fixed for the run; ``names`` are the clients' names in the network, if they have any.

        Raises:
            ScenarioError: a drawn probability is impossible, or a data file is broken.
        """


class Computation(Plugin, Protocol):
    """The scenario's choice of how long local training takes.

    Attributes:
        instant: whether no job takes any time.
        independent: whether certainly no job takes longer as others work.

    A tenth of a second for a sample and epoch; client 1 is half as fast. For two epochs of 50 and 20 samples:

    >>> from types import SimpleNamespace
    >>> from simfl.devices.computation import PerSample
    >>> built = PerSample(seconds=0.1, speed=(1.0, 2.0)).build(SimpleNamespace(clients=2), Streams(0))
    >>> clients = np.array([0, 1])
    >>> built.duration_s(clients, np.array([50, 20]), 2.0, Address(0, clients, 2)).tolist()
    [10.0, 8.0]
    """

    instant: bool = False
    independent: bool = False

    @abstractmethod
    def build(self, setting: ScenarioView, streams: Streams) -> "Computing":
        """Draws what stays fixed for the run.

        Raises:
            ScenarioError: a data file is broken.
        """


class Failure(Plugin, Protocol):
    """The scenario's choice of who dies in the middle of its work.

    Each job fails with probability 1/2: where a uniform draw u is below it, at the fraction 2 u of the work. Of four
    clients in round 0 two fail, after 30 % and 81 % of it:

    >>> from types import SimpleNamespace
    >>> from simfl.devices.failure import BernoulliFailure
    >>> setting, clients = SimpleNamespace(clients=4), np.arange(4)
    >>> model = BernoulliFailure(probability=0.5)
    >>> model.rates(setting, Streams(0)).tolist()
    [0.5, 0.5, 0.5, 0.5]
    >>> model.build(setting, Streams(0)).draw(clients, Address(0, clients, 4)).round(2).tolist()
    [0.3, nan, nan, 0.81]

    Attributes:
        never: whether certainly nobody ever fails, neither at work nor in a phase of secure aggregation.
    """

    never: bool = False

    def rates(self, setting: ScenarioView, streams: Streams) -> Floats | None:
        """Probability that each client fails at work, float64 (clients,), independently of all else; None = unknown."""
        return None

    @abstractmethod
    def build(self, setting: ScenarioView, streams: Streams) -> "Failing":
        """Draws what stays fixed for the run.

        Raises:
            ScenarioError: a drawn probability is impossible.
        """


AVAILABILITY = Registry[Availability](
    "availability",
    promises=("equal_rates", "independent", "timeless"),
    protocol=Availability,
    modules=modules_of(
        "simfl.devices", "trace", profiled="profile", random_availability="always bernoulli correlated daily markov"
    ),
)
COMPUTATION = Registry[Computation](
    "computation",
    number=("constant", "seconds"),
    promises=("instant", "independent"),
    protocol=Computation,
    modules=modules_of("simfl.devices", computation="constant per_sample random trace", profiled="profile"),
)
FAILURE = Registry[Failure](
    "failure",
    number=("bernoulli", "probability"),
    promises=("never", "rates"),
    protocol=Failure,
    modules=modules_of("simfl.devices", failure="bernoulli none"),
)


class Available(ABC):
    """A built availability model, from which plugins' derive; ``dropout`` is the long-run probability of being
    unavailable at a round, (clients,), None if unknown.
    """

    dropout: Floats | None

    @abstractmethod
    def draw(self, round: int, now_s: float) -> Bools:
        """Who is available for the round that starts at ``now_s``, bool (clients,).

        Called with rising round numbers, none left out; chains keep their last state in :meth:`state`.
        """

    def on_work(self, clients: NDArray[np.integer], seconds: Floats, now_s: float) -> None:
        """Told for how long clients have worked, float64 (n,), when their work has ended, or nobody waits for it any
        more: at the end of a round, or of a buffered job.
        """
        return None

    def state(self) -> Arrays:
        """What later draws depend on besides the round, for checkpoints."""
        return {}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        return None


@dataclass
class Staying(Available):
    """Those of an availability model who have joined and have not left.

    Args:
        available: the model.
        stays_s: from when until when each client takes part, simulated seconds (clients, 2).
    """

    available: Available
    stays_s: Floats
    dropout: Floats | None = None

    def draw(self, round: int, now_s: float) -> Bools:
        here = (self.stays_s[:, 0] <= now_s) & (now_s < self.stays_s[:, 1])
        return self.available.draw(round, now_s) & here

    def on_work(self, clients: NDArray[np.integer], seconds: Floats, now_s: float) -> None:
        if is_told(self.available):
            self.available.on_work(clients, seconds, now_s)

    def state(self) -> Arrays:
        return self.available.state()

    def restore(self, state: Arrays) -> None:
        self.available.restore(state)


def is_told(available: Available) -> bool:
    """Whether a built availability model reads how long clients have worked: it has a method ``on_work`` of its own."""
    if isinstance(available, Staying):
        return is_told(available.available)
    return type(available).on_work is not Available.on_work


class Computing(ABC):
    """A built computation model, from which plugins' derive."""

    @abstractmethod
    def duration_s(
        self, clients: NDArray[np.integer], samples: Integers, epochs: float | Floats, where: Address
    ) -> Floats:
        """Seconds of local training for each job, shape (n,).

        Args:
            clients: who computes, shape (n,).
            samples: training samples each holds, shape (n,).
            epochs: local passes over them.
            where: address of the jobs' draws.
        """


class Failing(ABC):
    """A built mid-round failure model, from which plugins' derive."""

    @abstractmethod
    def draw(self, clients: NDArray[np.integer], where: Address, phase: str = "work") -> Floats:
        """Fraction of its work after which each client dies, shape (n,); NaN = it does not fail.

        Args:
            clients: who is at work, shape (n,).
            where: address of the draws.
            phase: at what: ``"work"`` = local training, else a protocol's phase.
        """


# -- what a plugin answered, looked at once -----------------------------------------------------------


def checked_available(available: object, clients: int, model: object) -> Bools:
    """Who is available, as an array that cannot be changed.

    Raises:
        PluginError: it is not bool (clients,).
    """
    if not isinstance(available, np.ndarray) or available.dtype != bool or available.shape != (clients,):
        raise PluginError(model, f"draw must give bool of shape ({clients},), not {describe_type(available)}")
    return read_only(available)


def checked_durations_s(seconds: object, jobs: int, model: object) -> Floats:
    """The durations, if each is a finite number of seconds, 0 or more.

    Raises:
        PluginError: one is not, or there is not one a job.
    """
    return checked_numbers(seconds, jobs, model, "duration_s", 0.0, np.inf, "finite seconds, 0 or more")


def checked_deaths(fractions: object, jobs: int, model: object) -> Floats:
    """The fractions of their computation at which jobs die, if each lies in [0, 1] or is NaN: it does not die.

    Raises:
        PluginError: one is another number, or there is not one a job.
    """
    return checked_numbers(fractions, jobs, model, "draw", 0.0, 1.0, "fractions from 0 to 1, or NaN", nan=True)
