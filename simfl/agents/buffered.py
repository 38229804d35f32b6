"""The asynchronous server agent with a buffer (FedBuff, Nguyen et al. 2022, on a clock)."""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import PATIENCE, Asking, stalled
from simfl.agents.client import Clients, Flight, plan
from simfl.agents.flights import Unit, flights_of, saved
from simfl.agents.parts import Parts, Round
from simfl.agents.state import Arrays, prefixed, under
from simfl.metrics import Tally
from simfl.types import SERVER
from simfl.world import Message, World

__all__ = ["BufferedServer"]

Log = Callable[[dict[str, Any]], None]
Row = tuple[Any, ...]

DEADLINES, REFILL = 1, 2
"""Phases of an instant: what arrives comes first, then deadlines, then new work is given out."""


class BufferedServer:
    """Keeps up to ``concurrency`` clients at work and takes a step whenever its buffer holds K updates.

    A client occupies a slot from its start until its update, or the news of its failure, arrives. It cannot be
    selected again before its unit was aggregated or forfeited. The policy is asked for several units at a time;
    they wait in the roster and start, whole, as slots get free. A unit enters the buffer when all of it has
    delivered; a member that fails, or is late, takes its unit with it.

    Everything happens in reaction to a message, so that the state after an aggregation is explicit.

    Args:
        parts: the built scenario.
        world: clock and post.
        on_round: called with each finished :class:`Round`.
        log: called with a record for every event, or None.
    """

    def __init__(self, parts: Parts, world: World, on_round: Callable[[Round], None], log: Log | None = None) -> None:
        self.parts, self.world, self.on_round, self.log = parts, world, on_round, log
        self.aggregator = Aggregator(parts)
        self.clients = Clients(world, log)
        self.stop = world.event()
        self.stopped = False
        self.free = parts.rule.concurrency
        self.busy = np.zeros(parts.clients, dtype=bool)
        self.live: dict[int, Flight] = {}
        self.buffer: list[Flight] = []
        self.roster: deque[list[Flight]] = deque()
        self.asking = Asking(parts, log)
        self.retry_at = 0.0
        self.refilling = False
        self._begin_round()
        world.listen(self._receive, SERVER)

    @property
    def tally(self) -> Tally:
        """Who was aggregated so far."""
        return self.aggregator.tally

    @property
    def model(self) -> NDArray[np.float32]:
        """The current global model."""
        return self.aggregator.model

    def play(self) -> Generator[Any, Any, None]:
        """Goes on until the rule says that the run ends."""
        if not self.aggregator.version:
            self._note("round_start", round=0)
        self._refill_soon()
        yield self.stop

    # -- giving out work -----------------------------------------------------------------------------

    def _refill_soon(self) -> None:
        """New work is given out when all that happens at this instant has happened."""
        if not self.refilling:
            self.refilling = True
            self.world.at(self.world.now, self._refill, phase=REFILL)

    def _refill(self, _: None) -> None:
        self.refilling = False
        while not self.stopped:
            while self.roster and len(self.roster[0]) <= self.free:
                self._start(self.roster.popleft())
            if self.roster or self.free < self.parts.policy.unit_size or not self._ask():
                return

    def _ask(self) -> bool:
        """Asks the policy who shall work next; False if nobody can be selected, as far as is known."""
        rule, now, tally = self.parts.rule, self.world.now, self.tally
        if now < self.retry_at:
            return False
        most = max(self.free, rule.lookahead or rule.buffer)
        deserted = self.free == rule.concurrency
        tick, units = self.asking.ask(self.aggregator.version, self.busy, tally.participation, most, now, deserted)
        if not units.size:
            self.retry_at = now + rule.retry_s
            self.world.at(self.retry_at, self._refill, phase=REFILL)
            return False
        self._enrol(tick, units)
        return True

    def _enrol(self, tick: int, units: NDArray[np.int32]) -> None:
        flights = plan(self.parts, tick, self.aggregator.version, units.ravel(), self.world.now)
        size = units.shape[1]
        self.roster.extend(flights[first : first + size] for first in range(0, len(flights), size))

    def _start(self, flights: list[Flight]) -> None:
        now, version = self.world.now, self.aggregator.version
        whole = Unit(flights)
        for flight in flights:
            client = flight.job.client
            flight.job = flight.job._replace(version=version, started_at=now)
            flight.unit = Unit([flight]) if self.parts.rule.partial else whole
            self.live[flight.job.id] = flight
            self.busy[client] = True
            self.bytes_down += flight.size_bytes
            self.clients.start(flight)
            self._set_deadline(flight)
        self.free -= len(flights)
        self.aggregator.hold(version, len(flights))

    def _set_deadline(self, flight: Flight) -> None:
        """Durations are known when a job starts, so that only late ones need an alarm."""
        deadline_s, started = self.parts.rule.deadline_s, flight.job.started_at
        if deadline_s is not None:
            arrives = started + flight.download_s + flight.compute_s + flight.reply_s
            if arrives > started + deadline_s:
                self.world.at(started + deadline_s, self._late, flight, phase=DEADLINES)

    # -- what arrives --------------------------------------------------------------------------------

    def _receive(self, message: Message) -> None:
        flight = message.body
        if self.stopped or flight.cancelled:
            return
        self._free_slot(flight)
        if message.kind == "failure":
            self._forfeit(flight, "failed")
            return
        self.bytes_up += flight.size_bytes
        flight.heard = self.aggregator.version
        unit = flight.unit
        unit.missing -= 1
        if not unit.missing:
            self._admit(unit)

    def _late(self, flight: Flight) -> None:
        if not (self.stopped or flight.cancelled) and isnan(flight.ended_s):
            self._cancel(flight)
            self._forfeit(flight, "late")

    def _free_slot(self, flight: Flight) -> None:
        flight.ended_s = self.world.now
        self.free += 1
        self._refill_soon()

    def _cancel(self, flight: Flight) -> None:
        flight.cancelled = True
        self._free_slot(flight)
        self._note("cancel", job=flight.job.id, client=flight.job.client)

    def _forfeit(self, culprit: Flight, outcome: str) -> None:
        """A member did not deliver: its unit is given up, and all of it is free to be selected again."""
        if self.failed > PATIENCE + 100 * self.parts.rule.buffer:
            raise stalled(f"{self.failed} jobs failed since the last server update", self.world.now)
        for flight in culprit.unit.members:
            if flight is not culprit and flight.heard < 0:
                self._cancel(flight)
            self._end(flight, outcome if flight is culprit else "forfeited")

    def _admit(self, unit: Unit) -> None:
        staleness = self.aggregator.version - unit.members[0].job.version
        if self.parts.rule.refuses(staleness):
            for flight in unit.members:
                self._end(flight, "stale", staleness=staleness)
            return
        self.buffer += unit.members
        if len(self.buffer) >= self.parts.rule.buffer:
            self._aggregate()

    # -- aggregation ---------------------------------------------------------------------------------

    def _aggregate(self) -> None:
        flights = sorted(self.buffer, key=lambda flight: flight.job.client)
        self.buffer = []
        t, own = self.aggregator.version, self.parts.rule.unit_weights == "own"
        staleness = np.array([(flight.heard if own else t) - flight.job.version for flight in flights], dtype=np.int64)
        done = self.aggregator.aggregate([flight.job for flight in flights], staleness, self.world.now)
        for flight, age in zip(flights, staleness.tolist(), strict=True):
            self._end(flight, "aggregated", t, age)
        self._note("round_end", round=t, cardinality=len(flights))
        self.stopped = done.last
        if done.last:
            for flight in self.live.values():
                self.rows.append(self._row(flight, "open"))
            self.stop.succeed()
        else:
            self._note("round_start", round=t + 1)
        cost = {"failed": self.failed, "bytes_down": self.bytes_down, "bytes_up": self.bytes_up}
        rows = self.rows
        self._begin_round()
        self.on_round(replace(done, row=done.row | cost, jobs=rows))

    def _begin_round(self) -> None:
        """A new model: what was counted for the last one is reported, and there is a reason to ask again."""
        self.failed = self.bytes_down = self.bytes_up = 0
        self.rows: list[Row] = []
        self.retry_at = 0.0

    def _end(self, flight: Flight, outcome: str, round: int | None = None, staleness: int | None = None) -> None:
        """A job's one and only end; its client is idle again."""
        del self.live[flight.job.id]
        self.busy[flight.job.client] = False
        self.failed += outcome != "aggregated"
        self.rows.append(self._row(flight, outcome, round, staleness))
        self.aggregator.release(flight.job.version)

    def _row(self, flight: Flight, outcome: str, round: int | None = None, staleness: int | None = None) -> Row:
        ended = self.world.now if isnan(flight.ended_s) else flight.ended_s
        return (*flight.job, ended, outcome, round, staleness)

    def _note(self, event: str, **record: Any) -> None:
        if self.log is not None:
            self.log({"event": event, "time_s": self.world.now, **record})

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that happens after an aggregation depends on, as named arrays; the buffer is empty then."""
        waiting = [flight.job.id for unit in self.roster for flight in unit]
        return {
            "time_s": np.float64(self.world.now),
            "roster": np.array(waiting, dtype=np.int64),
            **self.aggregator.state(),
            **prefixed("flight", saved(self.live.values())),
            **prefixed("asking", self.asking.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.aggregator.restore(state, tally)
        self.asking.restore(under("asking", state))
        if waiting := state["roster"].tolist():
            clients = [job & 0xFFFFFFFF for job in waiting]
            units = np.array(clients, dtype=np.int32).reshape(-1, self.parts.policy.unit_size)
            self._enrol(waiting[0] >> 32, units)
        flights = flights_of(under("flight", state), self.parts.learner.model_bytes)
        self.live = {flight.job.id: flight for flight in flights}
        for flight in flights:
            self.busy[flight.job.client] = True
            self.aggregator.hold(flight.job.version)
        working = [flight for flight in flights if flight.heard < 0]
        self.free -= len(working)
        for flight in sorted(working, key=lambda flight: (flight.leg_ends_s, flight.serial)):
            self.clients.resume(flight)
        for flight in working:
            self._set_deadline(flight)
