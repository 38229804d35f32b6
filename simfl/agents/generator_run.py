"""How a generator that a user has written is driven: it yields what a method of its node gives, and gets the value."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from math import isfinite
from typing import Any, Generic, TypeVar

import numpy as np

from simfl.core.errors import SimflError
from simfl.core.registration.packages import raised_at
from simfl.core.types import Arrays

MOST_AT_AN_INSTANT = 10_000
"""Waits of one run that end at one instant; more are a loop."""

WaitT = TypeVar("WaitT")


class AgentError(SimflError):
    """An agent did what none can do (exit 2)."""


class GeneratorRun(ABC, Generic[WaitT]):
    """One run of such a generator, and its node.

    Attributes:
        memory: arrays of numbers by name, which outlive the run.
        pending: what a method of the node has given, and the generator has not waited for yet.
    """

    memory: Arrays
    pending: WaitT | None = None

    @abstractmethod
    def error(self, what: str) -> AgentError:
        """The line that says what it has done."""

    def give(self, wait: WaitT) -> WaitT:
        """What a method of the node gives.

        Raises:
            AgentError: it does not wait for what it was given before.
        """
        self.refuse_pending()
        self.pending = wait
        return wait

    def refuse_pending(self) -> None:
        """
        Raises:
            AgentError: it goes on without what a method of its node gives.
        """
        if self.pending is not None:
            raise self.error("calls a method of its node and does not wait for what it gives; write yield before it")

    def check_seconds(self, name: str, seconds: object) -> None:
        """
        Raises:
            AgentError: it is no finite number from 0.
        """
        number = isinstance(seconds, (int, float, np.number)) and not isinstance(seconds, bool)
        if not (number and isfinite(seconds) and seconds >= 0):  # type: ignore[arg-type, operator]
            raise self.error(f"gives {seconds!r} as {name}, and a finite number from 0 is needed")

    def check_memory(self) -> None:
        """
        Raises:
            AgentError: it keeps what cannot be stored; of an array that is more than one, such as a mask's, a part.
        """
        if not isinstance(self.memory, dict):
            raise self.error("sets its memory anew; what it keeps are items of it, node.memory[name] = array")
        for name, value in self.memory.items():
            if not isinstance(name, str) or type(value) is not np.ndarray or value.dtype.kind not in "biuf":
                raise self.error(f"keeps {name!r} in memory, which is no array of numbers; use numpy.array")

    def next_wait(self, run: Generator[Any, Any, Any], value: object) -> WaitT | None:
        """Lets it go on until its next wait; None if it has ended.

        Raises:
            AgentError: it waits for something else, or fails.
        """
        try:
            pending = run.send(value)
        except StopIteration:
            if self.pending is not None:
                raise self.error("ends before it has waited for what its node gave; write yield before it") from None
            return None
        except SimflError:
            raise
        except Exception as error:
            hint = "" if self.pending is None else "; write yield before what its node gives"
            raise self.error(f"failed: {raised_at(error)}{hint}") from error
        if pending is not self.pending or self.pending is None:
            raise self.error(
                f"waits for a {type(pending).__name__}, and not for what a method of its node has just given"
            )
        wait, self.pending = self.pending, None
        return wait
