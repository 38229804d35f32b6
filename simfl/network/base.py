"""What a network is: the delay of one message between two addresses. The link owns it; the sender never knows."""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.validation import checked_numbers


class Links(ABC):
    """A built network, from which plugins' derive: the delays of many messages at once.

    A message takes the latency of its path, plus its bytes over the bandwidth of the path's narrowest link, plus
    jitter. ``where`` addresses the jitter's draws, one a message; they lie in the streams "jitter/down",
    "jitter/up" and "jitter/between", followed by the ``leg``: two messages in one direction at one address share their
    jitter unless their legs differ.

    Attributes:
        names: a name for each client, or None where they have only their numbers.
    """

    names: tuple[str, ...] | None

    @abstractmethod
    def down_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic], where: Address, phase: str = ""
    ) -> NDArray[np.float64]:
        """Seconds from the server to each of ``clients``, shape (n,)."""

    @abstractmethod
    def up_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic], where: Address, phase: str = ""
    ) -> NDArray[np.float64]:
        """Seconds from each of ``clients`` to the server, shape (n,)."""

    @abstractmethod
    def latency_s(self, sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> NDArray[np.float64]:
        """Seconds that an empty message takes without jitter, shape (n,); ends as for :meth:`between_s`."""

    @abstractmethod
    def between_s(
        self,
        sources: NDArray[np.integer],
        destinations: NDArray[np.integer],
        size_bytes: float | NDArray[np.generic],
        where: Address,
        phase: str = "",
    ) -> NDArray[np.float64]:
        """Seconds from each source to the destination of the same position, shape (n,).

        Both are clients or :data:`simfl.core.types.SERVER`; a message to oneself takes no time.
        """


class Network(Plugin, Protocol):
    """The scenario's ``network`` choice: a frozen dataclass whose fields are its YAML keys.

    A star of two clients, 0.1 s and 0.3 s from the server, over lines of 1,000 bytes per second. A message of 500 bytes
    takes its latency and half a second; from client to client both latencies add up:

    >>> from types import SimpleNamespace
    >>> from simfl.core.types import SERVER
    >>> from simfl.network.star import Star
    >>> star = Star(latency_s=(0.1, 0.3), bandwidth_bytes_per_s=1000.0)
    >>> links = star.build(SimpleNamespace(clients=2), Streams(0))
    >>> clients = np.array([0, 1])
    >>> where = Address(0, clients, 2)
    >>> links.down_s(clients, 500, where).round(6).tolist()
    [0.6, 0.8]
    >>> links.latency_s(clients, clients[::-1]).round(6).tolist()
    [0.4, 0.4]

    Attributes:
        independent: whether certainly no message takes longer because others are on their way.
        loss: probability that a message is lost, each by itself.
    """

    independent: bool = False
    loss: float = 0.0

    @abstractmethod
    def build(self, setting: ScenarioView, streams: Streams) -> Links:
        """Draws what stays fixed for the run.

        Raises:
            ScenarioError: a client and the server cannot reach one another, or a data file is broken.
            MissingError: a data file is not there.
        """


NETWORKS = Registry[Network](
    "network",
    promises=("independent",),
    protocol=Network,
    modules=modules_of("simfl.network", "cities", "file", "star", graph="complete graph ring small_world"),
)


def checked_delays_s(seconds: object, messages: int, links: object) -> NDArray[np.float64]:
    """The delays, if each is a finite number of seconds, 0 or more.

    Raises:
        PluginError: one is not, or there is not one a message.
    """
    return checked_numbers(seconds, messages, links, "a delay", 0.0, np.inf, "finite seconds, 0 or more")
