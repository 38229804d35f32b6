"""What a network is: the delay of one message between two addresses. The link owns it; the sender never knows."""

from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.answers import checked_numbers
from simfl.registry import Registry
from simfl.rng import Address, Streams
from simfl.setting import Setting

__all__ = ["NETWORKS", "Links", "Network", "checked_delays_s"]


class Links(Protocol):
    """A built network: the delays of many messages at once.

    A message takes the latency of its path, plus its bytes over the bandwidth of the path's narrowest link, plus
    jitter. ``where`` addresses the jitter's draws, one a message; they lie in the streams "jitter/down",
    "jitter/up" and "jitter/between", followed by the ``leg``: two messages in one direction at one address share their
    jitter unless their legs differ.

    Attributes:
        names: a name for each client, or None where they have only their numbers.
    """

    names: tuple[str, ...] | None

    def down_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[Any], where: Address, leg: str = ""
    ) -> NDArray[np.float64]:
        """Seconds from the server to each of ``clients``, shape (n,)."""
        ...

    def up_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[Any], where: Address, leg: str = ""
    ) -> NDArray[np.float64]:
        """Seconds from each of ``clients`` to the server, shape (n,)."""
        ...

    def between_s(
        self,
        sources: NDArray[np.integer],
        destinations: NDArray[np.integer],
        size_bytes: float | NDArray[Any],
        where: Address,
        leg: str = "",
    ) -> NDArray[np.float64]:
        """Seconds from each source to the destination of the same position, shape (n,).

        Both are clients or :data:`simfl.types.SERVER`; a message to oneself takes no time.
        """
        ...


class Network(Protocol):
    """The scenario's ``network`` choice: a frozen dataclass whose fields are its YAML keys."""

    @abstractmethod
    def build(self, setting: Setting, streams: Streams) -> Links:
        """Draws what stays fixed for the run.

        Raises:
            ScenarioError: a client and the server cannot reach one another, or a data file is broken.
            MissingError: a data file is not there.
        """
        ...


NETWORKS = Registry("network", protocol=Network)


def checked_delays_s(seconds: Any, messages: int, links: object) -> NDArray[np.float64]:
    """The delays, if each is a finite number of seconds, 0 or more.

    Raises:
        PluginError: one is not, or there is not one a message.
    """
    return checked_numbers(seconds, messages, links, "a delay", 0.0, np.inf, "finite seconds, 0 or more")
