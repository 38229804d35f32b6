"""One run of an edge's own behaviour: the process that drives it, and what it knows as its place on the clock."""

from collections.abc import Callable, Generator
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.agent_run import MOST_AT_AN_INSTANT, AgentError
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.world import Process, World
from simfl.core.errors import SimflError
from simfl.core.registration.packages import raised_at
from simfl.core.types import Arrays

MOST_WAITS = 100_000
"""Of one run of an edge, for whose model the root waits; more go on without end."""


class _Wait(NamedTuple):
    """What an edge waits for: how that begins. Its value goes to the edge."""

    begin: Callable[[], Process[Any]]


class EdgeRun:
    """What an edge does with one model. See :class:`simfl.topology.base.EdgeNode`.

    Args:
        parts: the scenario of its clients.
        world: the clock.
        version: of the model.
        memory: of the edge.
        serve: aggregates so many times.
    """

    def __init__(
        self,
        parts: Components[Any],
        world: World,
        version: int,
        memory: Arrays,
        serve: Callable[[int], Process[list[RoundResult]]],
    ) -> None:
        assert parts.members is not None
        self.parts, self.world, self.memory, self.serve = parts, world, memory, serve
        self.edge, self.clients = parts.members.edge, parts.members.clients.copy()
        self.rng = parts.streams("edge", version)
        self.rounds: list[RoundResult] = []
        self.pending: _Wait | None = None

    @property
    def now(self) -> float:
        """Simulated time, seconds."""
        return self.world.now

    def aggregate(self, times: int = 1) -> _Wait:
        """See :class:`simfl.topology.base.EdgeNode`."""
        if not isinstance(times, (int, np.integer)) or isinstance(times, bool) or times < 1:
            raise self.error(f"aggregates {times!r} times, and a whole number from 1 is needed")
        return self._make(lambda: self._aggregate(int(times)))

    def sleep(self, seconds: float) -> _Wait:
        """See :class:`simfl.topology.base.EdgeNode`."""
        number = isinstance(seconds, (int, float, np.number)) and not isinstance(seconds, bool)
        if not (number and isfinite(seconds) and seconds >= 0):
            raise self.error(f"sleeps {seconds!r} seconds, and a finite number from 0 is needed")
        return self._make(lambda: self._sleep(float(seconds)))

    def _make(self, begin: Callable[[], Process[Any]]) -> _Wait:
        if self.pending is not None:
            raise self.error("does not wait for what it has asked for; write yield before it")
        self.pending = _Wait(begin)
        return self.pending

    def _aggregate(self, times: int) -> Process[NDArray[np.int32]]:
        assert self.parts.members is not None
        rounds = yield from self.serve(times)
        self.rounds += rounds
        return np.unique(self.parts.members.clients[np.concatenate([done.clients for done in rounds])])

    def _sleep(self, seconds: float) -> Process[None]:
        yield self.world.wait(seconds)

    def error(self, what: str) -> AgentError:
        """The line that says what the edge has done."""
        topology = self.parts.topology
        where = f"{topology.aggregator}/{self.edge} at {self.now:.6g} s"
        return AgentError(f"{where}: run_edge of topology '{topology.name}' {what}")

    def live(self) -> Process[list[RoundResult]]:
        """Drives the edge to its end; its aggregations.

        Raises:
            AgentError: it does what no edge can.
        """
        run, value = self.parts.topology.run_edge(self), None
        since_s, at_instant, waits = self.now, 0, 0
        while (wait := self._next(run, value)) is not None:
            value = yield from wait.begin()
            at_instant = at_instant + 1 if self.now == since_s else 0
            since_s, waits = self.now, waits + 1
            if at_instant > MOST_AT_AN_INSTANT:
                raise self.error(f"goes on {MOST_AT_AN_INSTANT} times without letting time pass")
            if waits > MOST_WAITS:
                raise self.error(f"waits more than {MOST_WAITS} times while its model is waited for")
        if not self.rounds:
            raise self.error("ends without an aggregation; write yield edge.aggregate()")
        for name, array in self.memory.items():
            if not (isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in "biuf"):
                raise self.error(f"keeps {name!r} in its memory, which is no array of numbers; use np.asarray")
        return self.rounds

    def _next(self, run: Generator[Any, Any, Any], value: object) -> _Wait | None:
        """Lets the edge go on until its next wait; None if it has ended."""
        try:
            wait = run.send(value)
        except StopIteration:
            if self.pending is not None:
                raise self.error("ends before it has waited for what it has asked for; write yield before it") from None
            return None
        except SimflError:
            raise
        except Exception as error:
            raise self.error(f"failed: {raised_at(error)}") from error
        if not isinstance(wait, _Wait) or wait is not self.pending:
            raise self.error(f"waits for a {type(wait).__name__}, and not for what aggregate or sleep has just given")
        self.pending = None
        return wait
