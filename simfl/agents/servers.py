"""The family of servers: a rule names the one that plays it."""

from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.metrics import Tally
from simfl.registry import Registry
from simfl.types import Arrays
from simfl.world import World

__all__ = ["SERVERS", "Log", "Server"]

Log = Callable[[dict[str, Any]], None]
"""Takes a record of events.jsonl."""


class Server(Protocol):
    """A dataclass of (parts, world, on_round, log), an agent of the world.

    Attributes:
        world: the clock it lives on.
        tally: who was aggregated so far.
        model: the current global model, float32 (d,).
    """

    if TYPE_CHECKING:  # attributes that an instance has, however it comes by them
        world: World

        @property
        def tally(self) -> Tally: ...

        @property
        def model(self) -> NDArray[np.float32]: ...

    @abstractmethod
    def play(self) -> Generator[Any, Any, None]:
        """Plays from the current state to the end of the run; ``on_round`` is called with every round."""
        ...

    @abstractmethod
    def state(self) -> Arrays:
        """What happens after the round just reported depends on; at least ``time_s`` and ``rounds``."""
        ...

    @abstractmethod
    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        ...


SERVERS = Registry("server", protocol=Server)
