"""The asynchronous server agent with a buffer (FedBuff, Nguyen et al. 2022, on a clock)."""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import FRUITLESS, Asking, stalled
from simfl.agents.client import Flight, plan, records
from simfl.agents.exchange import Conversation, converse, message
from simfl.agents.flights import Unit, flights_of, saved
from simfl.agents.parts import Cost, Parts, Phase, Round
from simfl.agents.servers import SERVERS, Log
from simfl.agents.state import Arrays, prefixed, under
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.secagg.base import Cohort, Failed, Prepared
from simfl.types import SERVER
from simfl.world import World

__all__ = ["BufferedServer"]

Row = tuple[Any, ...]

DEADLINES, REFILL = 1, 2
"""Phases of an instant: what arrives comes first, then deadlines, then new work is given out."""


@SERVERS("buffered")
@dataclass(eq=False)
class BufferedServer:
    """Keeps up to ``concurrency`` clients at work and takes a step whenever its buffer holds K updates.

    A client occupies a slot from its start until its update, or the news of its failure, arrives. It cannot be
    selected again before its unit was aggregated or forfeited. The policy is asked for several units at a time;
    they wait in the roster and start, whole, as slots get free. A unit enters the buffer when all of it has
    delivered; a member that fails, or is late, takes its unit with it.

    A protocol prepares each unit before its models go out, and recovers the sum of a full buffer; what arrives
    meanwhile waits for the next one. Everything happens in reaction to what arrives, so that the state after an
    aggregation is explicit.

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
        self.stop = self.world.event()
        self.stopped = False
        self.free = self.parts.rule.concurrency
        self.busy = np.zeros(self.parts.clients, dtype=bool)
        self.live: dict[int, Flight] = {}
        self.buffer: list[Unit] = []
        self.roster: deque[list[Flight]] = deque()
        self.asking = Asking(self.parts, self.log)
        self.serial = 0
        self.held = 0
        self.recoveries = 0
        self.recovering = False
        self.retry_at = 0.0
        self.refilling = False
        self._begin_round()

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
        self._recover()
        self._refill_soon()
        yield self.stop

    # -- giving out work -----------------------------------------------------------------------------

    def _refill_soon(self) -> None:
        """New work is given out when all that happens at this instant has happened."""
        if self.world.settled:
            self._refill(None)
        elif not self.refilling:
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
        deserted = self.free == rule.concurrency and not self.recovering
        tick, units = self.asking.ask(self.aggregator.version, self.busy, tally.participation, most, now, deserted)
        if not units.size:
            self.retry_at = now + rule.retry_s
            self.world.at(self.retry_at, self._refill, phase=REFILL)
            return False
        self._enrol(tick, units)
        return True

    def _enrol(self, tick: int, units: NDArray[np.int32]) -> None:
        flights = plan(self.parts, tick, self.aggregator.version, units.ravel(), self.world.now, sized=False)
        size = units.shape[1]
        self.roster.extend(flights[first : first + size] for first in range(0, len(flights), size))

    def _start(self, flights: list[Flight]) -> None:
        """Takes slots for the clients of a unit; its models go out once it is prepared."""
        now, version, phases = self.world.now, self.aggregator.version, self.parts.protocol.phases
        self.free -= len(flights)
        for flight in flights:
            if phases:
                flight.job = flight.job._replace(version=version, started_at=now)
            self.live[flight.job.id] = flight
            self.busy[flight.job.client] = True
        for members in [[flight] for flight in flights] if self.parts.rule.partial else [flights]:
            unit = Unit(members, now)
            for flight in members:
                flight.unit = unit
            if phases:
                self.serial += 1
                unit.serial = self.serial
                self._await(unit, self._prepared(unit))
            else:
                self._depart(unit)

    def _prepared(self, unit: Unit) -> Conversation:
        """The protocol's talk before a unit's models go out; known when it begins."""
        clients = np.array([[flight.job.client for flight in unit.members]], dtype=np.int32)
        cohort = Cohort(unit.tick, clients, self.parts.learner.dimension)
        talk = self.parts.protocol.prepare(cohort, self.parts.streams)
        return converse(self.parts, talk, unit.tick, unit.begun_s, "prepare")

    def _await(self, unit: Unit, said: Conversation) -> None:
        if said.exchanges:
            self.world.at(said.ends_s, self._ready, (unit, said))
        else:
            self._launch(unit, said)

    def _ready(self, prepared: tuple[Unit, Conversation]) -> None:
        if not self.stopped:
            self._launch(*prepared)
            self._refill_soon()

    def _launch(self, unit: Unit, said: Conversation) -> None:
        self._spend(said)
        if isinstance(said.result, Prepared) and said.result.kept.all():
            unit.prepared = said.result.secret
            self._depart(unit)
            return
        for flight in unit.members:
            self._free_slot(flight)
            self._end(flight, "failed")
        self._patience(said.result.reason if isinstance(said.result, Failed) else "a unit could not be prepared")

    def _depart(self, unit: Unit) -> None:
        """The models leave the server."""
        world, version, deadline_s = self.world, self.aggregator.version, self.parts.rule.deadline_s
        unit.departed, now = True, world.now
        if self.parts.learner.sizes_vary:
            self._resize(unit, version)
        for flight in unit.members:
            self.serial += 1
            flight.depart(version, now, self.serial)
            self.cost.bytes_down += flight.down_bytes
            world.at(flight.arrives_s, self._receive, flight)
            if deadline_s is not None:
                self._set_deadline(flight, deadline_s)
        self.aggregator.hold(version, len(unit.members))

    def _resize(self, unit: Unit, version: int) -> None:
        """Sizes that depend on the version are known only now; the draws stay the same."""
        clients = np.array([flight.job.client for flight in unit.members], dtype=np.int32)
        sized = plan(self.parts, unit.tick, version, clients, self.world.now, sized=True)
        for flight, fresh in zip(unit.members, sized, strict=True):
            flight.download_s, flight.reply_s = fresh.download_s, fresh.reply_s
            flight.down_bytes, flight.up_bytes = fresh.down_bytes, fresh.up_bytes

    def _set_deadline(self, flight: Flight, deadline_s: float) -> None:
        """Durations are known when a job starts, so that only late ones need an alarm."""
        ends_s = flight.job.started_at + deadline_s
        if flight.arrives_s > ends_s:
            self.world.at(ends_s, self._late, flight, phase=DEADLINES)

    # -- what arrives --------------------------------------------------------------------------------

    def _receive(self, flight: Flight) -> None:
        if self.stopped or flight.cancelled:
            return
        if self.log is not None:
            records(flight, self.world.now, self.log)
        self._free_slot(flight)
        if flight.lives:
            self.cost.bytes_up += flight.up_bytes
            flight.heard = self.aggregator.version
            unit = flight.unit
            unit.missing -= 1
            if not unit.missing:
                self._admit(unit)
        else:
            self._forfeit(flight, "failed")
        self._refill_soon()

    def _late(self, flight: Flight) -> None:
        if not (self.stopped or flight.cancelled) and isnan(flight.ended_s):
            self._cancel(flight)
            self._forfeit(flight, "late")
            self._refill_soon()

    def _free_slot(self, flight: Flight) -> None:
        flight.ended_s = self.world.now
        self.free += 1

    def _cancel(self, flight: Flight) -> None:
        """The server no longer waits for a client, and tells it so; a message of no bytes."""
        flight.cancelled = True
        self._free_slot(flight)
        if self.log is not None:
            now, job = self.world.now, flight.job
            records(flight, now, self.log)
            where = Address(job.id >> 32, np.array([job.client]), self.parts.clients)
            delay = float(self.parts.links.down_s(where.index, 0, where, "/cancel")[0])
            self.log(message("cancel", SERVER, job.client, 0, now, now + delay))
            self._note("cancel", job=job.id, client=job.client)

    def _forfeit(self, culprit: Flight, outcome: str) -> None:
        """A member did not deliver: its unit is given up, and all of it is free to be selected again."""
        self._patience("")
        for flight in culprit.unit.members:
            if flight is not culprit and flight.heard < 0:
                self._cancel(flight)
            self._end(flight, outcome if flight is culprit else "forfeited")

    def _patience(self, reason: str) -> None:
        if self.cost.failed - self.fruitful > FRUITLESS:
            why = f"{self.cost.failed - self.fruitful} jobs in a row have failed"
            raise stalled(f"{why} ({reason})" if reason else why, self.world.now)

    def _admit(self, unit: Unit) -> None:
        staleness = self.aggregator.version - unit.members[0].job.version
        if self.parts.rule.refuses(staleness):
            for flight in unit.members:
                self._end(flight, "stale", staleness=staleness)
            return
        self.fruitful = self.cost.failed
        self.buffer.append(unit)
        self.held += len(unit.members)
        self._recover()

    # -- aggregation ---------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Has the protocol recover the sum of a full buffer, unless it is at it."""
        if self.held < self.parts.rule.buffer or self.recovering or self.stopped:
            return
        units = self._take()
        clients = np.array([[flight.job.client for flight in unit.members] for unit in units], dtype=np.int32)
        cohort = Cohort(self.aggregator.version, clients, self.parts.learner.dimension)
        prepared = [unit.prepared for unit in units]
        everybody = np.ones(clients.shape, dtype=bool)
        talk = self.parts.protocol.recover(cohort, everybody, prepared, self.parts.streams)
        said = converse(self.parts, talk, self.recoveries, self.world.now, "recover")
        self.recoveries += 1
        if said.exchanges:
            self.recovering = True
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
        self.recovering = False
        self._sum(*answer)
        self._refill_soon()

    def _sum(self, units: list[Unit], said: Conversation) -> None:
        self._spend(said)
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
            self.fruitful = 0
            self._patience(said.result.reason if isinstance(said.result, Failed) else "nothing could be recovered")
        self._recover()

    def _step(self, flights: list[Flight], said: Conversation) -> None:
        flights = sorted(flights, key=lambda flight: flight.job.client)
        t, own = self.aggregator.version, self.parts.rule.unit_weights == "own"
        staleness = np.array([(flight.heard if own else t) - flight.job.version for flight in flights], dtype=np.int64)
        jobs, row = [flight.job for flight in flights], said.result.row
        done = self.aggregator.aggregate(
            jobs, staleness, said.result, self.world.now, self.cost, phases=self.phases, row=row
        )
        for flight, age in zip(flights, staleness.tolist(), strict=True):
            self._end(flight, "aggregated", t, age)
        self._note("round_end", round=t, cardinality=len(done.clients))
        self.stopped = done.last
        if done.last:
            for flight in self.live.values():
                if self.log is not None and flight.unit.departed and isnan(flight.ended_s):
                    records(flight, self.world.now, self.log, open_end=True)
                self.rows.append(self._row(flight, "open"))
            self.stop.succeed()
        else:
            self._note("round_start", round=t + 1)
        rows = self.rows
        self._begin_round()
        self.on_round(replace(done, jobs=rows))

    def _begin_round(self) -> None:
        """A new model: what was counted for the last one is reported, and there is a reason to ask again."""
        self.cost = Cost()
        self.fruitful = 0  # how many had failed when somebody delivered last
        self.phases: list[Phase] = []
        self.rows: list[Row] = []
        self.retry_at = 0.0

    def _spend(self, said: Conversation) -> None:
        self.phases += said.phases(self.aggregator.version)
        for one in said.exchanges:
            one.charge(self.cost)
            if self.log is not None:
                for record in one.records():
                    self.log(record)

    def _end(self, flight: Flight, outcome: str, round: int | None = None, staleness: int | None = None) -> None:
        """A job's one and only end; its client is idle again."""
        del self.live[flight.job.id]
        self.busy[flight.job.client] = False
        self.rows.append(self._row(flight, outcome, round, staleness))
        if outcome != "aggregated":
            self.cost.failed += 1
            self.parts.learner.forget([flight.job])
        if flight.unit.departed:
            self.aggregator.release(flight.job.version)
        flight.unit = None  # which would otherwise wait for the collector of cycles

    def _row(self, flight: Flight, outcome: str, round: int | None = None, staleness: int | None = None) -> Row:
        ended = self.world.now if isnan(flight.ended_s) else flight.ended_s
        return (*flight.job, ended, outcome, round, staleness)

    def _note(self, event: str, **record: Any) -> None:
        if self.log is not None:
            self.log({"event": event, "time_s": self.world.now, **record})

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that happens after an aggregation depends on, as named arrays; nothing is being recovered then."""
        waiting = [flight.job.id for unit in self.roster for flight in unit]
        return {
            "time_s": np.float64(self.world.now),
            "serial": np.int64(self.serial),
            "recoveries": np.int64(self.recoveries),
            "roster": np.array(waiting, dtype=np.int64),
            "buffer": np.array([unit.members[0].job.id for unit in self.buffer], dtype=np.int64),
            **self.aggregator.state(),
            **prefixed("flight", saved(self.live.values())),
            **prefixed("asking", self.asking.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.aggregator.restore(state, tally)
        self.asking.restore(under("asking", state))
        self.serial, self.recoveries = int(state["serial"]), int(state["recoveries"])
        if waiting := state["roster"].tolist():
            clients = [job & 0xFFFFFFFF for job in waiting]
            units = np.array(clients, dtype=np.int32).reshape(-1, self.parts.policy.unit_size)
            self._enrol(waiting[0] >> 32, units)
        flights = flights_of(under("flight", state))
        self.live = {flight.job.id: flight for flight in flights}
        self.buffer = [self.live[job].unit for job in state["buffer"].tolist()]
        self.held = sum(len(unit.members) for unit in self.buffer)
        self.free -= sum(isnan(flight.ended_s) for flight in flights)
        for flight in flights:
            self.busy[flight.job.client] = True
            if flight.unit.departed:
                self.aggregator.hold(flight.job.version)
        self._resume(flights)

    def _resume(self, flights: list[Flight]) -> None:
        """Takes up everything that was going on, in the order in which it was set going."""
        pending: list[tuple[int, Flight | Unit]] = []
        deadline_s = self.parts.rule.deadline_s
        units = list({id(flight.unit): flight.unit for flight in flights}.values())
        if self.parts.protocol.phases:
            said = {unit: self._prepared(unit) for unit in units}
            for unit in units:
                if unit.departed:
                    unit.prepared = said[unit].result.secret
                else:
                    pending.append((unit.serial, unit))
        pending += [(flight.serial, flight) for flight in flights if flight.unit.departed and isnan(flight.ended_s)]
        for _, each in sorted(pending, key=lambda item: item[0]):
            if isinstance(each, Unit):
                self._await(each, said[each])
            else:
                self.world.at(each.arrives_s, self._receive, each)
                if deadline_s is not None:
                    self._set_deadline(each, deadline_s)
