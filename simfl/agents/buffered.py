"""The asynchronous server agent with a buffer (FedBuff, Nguyen et al. 2022, on a clock)."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import FRUITLESS, stalled
from simfl.agents.client import Flight, records
from simfl.agents.exchange import Conversation, converse, message
from simfl.agents.flights import Unit
from simfl.agents.ledger import Ledger
from simfl.agents.parts import Parts, Round
from simfl.agents.servers import SERVERS, Log
from simfl.agents.staff import Staff
from simfl.agents.state import Arrays, prefixed, under
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.secagg.base import Failed
from simfl.types import SERVER
from simfl.world import World

__all__ = ["BufferedServer"]


@SERVERS("buffered")
@dataclass(eq=False)
class BufferedServer:
    """Keeps up to ``concurrency`` clients at work and takes a step whenever its buffer holds K updates.

    A unit enters the buffer when all of it has delivered; a member that fails, or is late, takes its unit with it. A
    client cannot be selected again before its unit was aggregated or forfeited. A protocol recovers the sum of a full
    buffer; what arrives meanwhile waits for the next one. Everything happens in reaction to what arrives, so that the
    state after an aggregation is explicit.

    Args:
        parts: the built scenario.
        world: the clock.
        on_round: called with each finished :class:`Round`.
        log: called with a record for every event, or None.
    """

    parts: Parts
    world: World
    on_round: Callable[[Round], None]
    log: Log | None = None

    def __post_init__(self) -> None:
        self.aggregator = Aggregator(self.parts)
        self.ledger = Ledger(self.log)
        self.staff = Staff(
            self.parts, self.world, self.aggregator, self.ledger, self._receive, self._late, self._unprepared
        )
        self.stop = self.world.event()
        self.buffer: list[Unit] = []
        self.held = 0
        self.recoveries = 0

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
            self.ledger.note("round_start", self.world.now, round=0)
        self._recover()
        self.staff.refill_soon()
        yield self.stop

    # -- what arrives --------------------------------------------------------------------------------

    def _receive(self, flight: Flight) -> None:
        if self.staff.stopped or flight.cancelled:
            return
        if self.log is not None:
            records(flight, self.world.now, self.log)
        self.staff.vacate(flight)
        if flight.lives:
            self.ledger.cost.bytes_up += flight.up_bytes
            if not self.parts.protocol.shows_updates:
                self.ledger.cost.clear_bytes += int(np.sum(self.parts.learner.sizes([flight.job])[1]))
            flight.heard = self.aggregator.version
            unit = flight.unit
            unit.missing -= 1
            if not unit.missing:
                self._admit(unit)
        else:
            self._forfeit(flight, "failed")
        self.staff.refill_soon()

    def _late(self, flight: Flight) -> None:
        if not (self.staff.stopped or flight.cancelled) and isnan(flight.ended_s):
            self._cancel(flight)
            self._forfeit(flight, "late")
            self.staff.refill_soon()

    def _unprepared(self, unit: Unit, reason: str) -> None:
        for flight in unit.members:
            self.staff.vacate(flight)
            self._end(flight, "failed")
        self._patience(reason)

    def _cancel(self, flight: Flight) -> None:
        """The server no longer waits for a client, and tells it so; a message of no bytes."""
        flight.cancelled = True
        self.staff.vacate(flight)
        if self.log is not None:
            now, job = self.world.now, flight.job
            records(flight, now, self.log)
            where = Address(job.id >> 32, np.array([job.client]), self.parts.clients)
            delay = float(self.parts.links.down_s(where.index, 0, where, "/cancel")[0])
            self.log(message("cancel", SERVER, job.client, 0, now, now + delay))
            self.ledger.note("cancel", self.world.now, job=job.id, client=job.client)

    def _forfeit(self, culprit: Flight, outcome: str) -> None:
        """A member did not deliver: its unit is given up, and all of it is free to be selected again."""
        self._patience("")
        self.ledger.cost.failed_upload += 1
        for flight in culprit.unit.members:
            if flight is not culprit and flight.heard < 0:
                self._cancel(flight)
            self._end(flight, outcome if flight is culprit else "forfeited")

    def _patience(self, reason: str) -> None:
        if (lost := self.ledger.fruitless) > FRUITLESS:
            why = f"{lost} jobs in a row have failed"
            raise stalled(f"{why} ({reason})" if reason else why, self.world.now)

    def _admit(self, unit: Unit) -> None:
        if self._refused(unit):
            return
        self.ledger.fruitful = self.ledger.cost.failed
        self.buffer.append(unit)
        self.held += len(unit.members)
        self._recover()

    def _refused(self, unit: Unit) -> bool:
        """Whether a unit is too stale to be used; its jobs have ended then."""
        staleness = self.aggregator.version - unit.members[0].job.version
        if not self.parts.rule.refuses(staleness):
            return False
        for flight in unit.members:
            self._end(flight, "stale", staleness=staleness)
        return True

    # -- aggregation ---------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Has the protocol recover the sum of a full buffer, unless it is at it."""
        if self.staff.waiting or self.staff.stopped:
            return
        if self.parts.protocol.phases and self.parts.rule.unit_weights == "common":
            self.buffer = [unit for unit in self.buffer if not self._refused(unit)]  # old since the last recovery
            self.held = sum(len(unit.members) for unit in self.buffer)
        if self.held < self.parts.rule.buffer:
            return
        units = self._take()
        clients = np.array([[flight.job.client for flight in unit.members] for unit in units], dtype=np.int32)
        cohort = self.parts.cohort(self.aggregator.version, clients)
        prepared = [unit.prepared for unit in units]
        everybody = np.ones(clients.shape, dtype=bool)
        talk = self.parts.protocol.recover(cohort, everybody, prepared, self.parts.streams)
        said = converse(self.parts, talk, self.recoveries, self.world.now, "recover")
        self.recoveries += 1
        if said.exchanges:
            self.staff.waiting = True
            self.world.at(said.ends_s, self._recovered, (units, said))
        else:
            self._sum(units, said)

    def _take(self) -> list[Unit]:
        """The units that fill the buffer first."""
        taken, left = 0, self.held
        while self.held - left < self.parts.rule.buffer:
            left -= len(self.buffer[taken].members)
            taken += 1
        units, self.buffer, self.held = self.buffer[:taken], self.buffer[taken:], left
        return units

    def _recovered(self, answer: tuple[list[Unit], Conversation]) -> None:
        self.staff.waiting = False
        self._sum(*answer)
        self.staff.refill_soon()

    def _sum(self, units: list[Unit], said: Conversation) -> None:
        self.ledger.spend(said, self.aggregator.version)
        good = [False] * len(units) if isinstance(said.result, Failed) else said.result.kept.tolist()
        kept: list[Flight] = []
        for unit, summed in zip(units, good, strict=True):
            if summed:
                kept += unit.members
                continue
            for flight in unit.members:
                self._end(flight, "unrecovered")
        if kept:
            self._step(kept, said)
        else:
            self.ledger.fruitful = 0
            self._patience(said.result.reason if isinstance(said.result, Failed) else "nothing could be recovered")
        self._recover()

    def _step(self, flights: list[Flight], said: Conversation) -> None:
        flights = sorted(flights, key=lambda flight: flight.job.client)
        t, own = self.aggregator.version, self.parts.rule.unit_weights == "own"
        staleness = np.array([(flight.heard if own else t) - flight.job.version for flight in flights], dtype=np.int64)
        jobs, row = [flight.job for flight in flights], said.result.row
        done = self.aggregator.aggregate(
            jobs, staleness, said.result, self.world.now, self.ledger.cost, phases=self.ledger.phases, row=row
        )
        for flight, age in zip(flights, staleness.tolist(), strict=True):
            self._end(flight, "aggregated", t, age)
        self.ledger.note("round_end", self.world.now, round=t, cardinality=len(done.clients))
        self.staff.stopped = done.last
        if done.last:
            for flight in self.staff.live.values():
                if self.log is not None and flight.unit.departed and isnan(flight.ended_s):
                    records(flight, self.world.now, self.log, open_end=True)
                self.ledger.end(flight, "open", self.world.now)
            self.stop.succeed()
        else:
            self.ledger.note("round_start", self.world.now, round=t + 1)
        rows = self.ledger.rows
        self.ledger.begin()
        self.staff.retry_at = 0.0  # a new model is a reason to ask again
        self.on_round(replace(done, jobs=rows))

    def _end(self, flight: Flight, outcome: str, round: int | None = None, staleness: int | None = None) -> None:
        """A job's one and only end; its client is idle again."""
        self.ledger.end(flight, outcome, self.world.now, round, staleness)
        if outcome != "aggregated":
            self.ledger.cost.failed += 1
            self.parts.learner.forget([flight.job])
        self.staff.dismiss(flight)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that happens after an aggregation depends on, as named arrays; nothing is being recovered then."""
        return {
            "time_s": np.float64(self.world.now),
            "recoveries": np.int64(self.recoveries),
            "buffer": np.array([unit.members[0].job.id for unit in self.buffer], dtype=np.int64),
            **self.aggregator.state(),
            **prefixed("staff", self.staff.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.aggregator.restore(state, tally)
        self.staff.restore(under("staff", state))
        self.recoveries = int(state["recoveries"])
        self.buffer = [self.staff.live[job].unit for job in state["buffer"].tolist()]
        self.held = sum(len(unit.members) for unit in self.buffer)
