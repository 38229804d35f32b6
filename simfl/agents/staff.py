"""The clients at work for an asynchronous server: free slots, who is busy, who starts next."""

from collections import deque
from collections.abc import Callable
from math import isnan

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import Asking
from simfl.agents.client import Flight, plan
from simfl.agents.exchange import Conversation, converse
from simfl.agents.flights import Unit, flights_of, saved
from simfl.agents.ledger import Ledger
from simfl.agents.parts import Parts
from simfl.agents.state import Arrays, prefixed, under
from simfl.secagg.base import Failed, Prepared
from simfl.world import World

__all__ = ["Staff"]

DEADLINES, REFILL = 1, 2
"""Phases of an instant: what arrives comes first, then deadlines, then new work is given out."""


class Staff:
    """Gives out work whenever slots are free.

    The policy is asked for several units at a time; they wait in the roster and start, whole, as slots get free. A
    protocol prepares each unit before its models go out. A client occupies a slot from its start until its update, or
    the news of its failure, arrives, and is busy until the server has dismissed it.

    Args:
        parts: the built scenario.
        world: the clock.
        aggregator: whose model versions go out.
        ledger: what is counted for the next round.
        heard: called with a job whose answer, or the end of its connection, arrives.
        late: called with a job that has not answered at its deadline.
        lost: called with a unit that could not be prepared, and the reason.

    Attributes:
        live: the jobs whose fate is open, by number.
        stopped: nothing is given out any more.
    """

    def __init__(
        self,
        parts: Parts,
        world: World,
        aggregator: Aggregator,
        ledger: Ledger,
        heard: Callable[[Flight], None],
        late: Callable[[Flight], None],
        lost: Callable[[Unit, str], None],
    ) -> None:
        self.parts, self.world, self.aggregator, self.ledger = parts, world, aggregator, ledger
        self.heard, self.late, self.lost = heard, late, lost
        self.free: int = parts.rule.concurrency
        self.busy = np.zeros(parts.clients, dtype=bool)
        self.live: dict[int, Flight] = {}
        self.roster: deque[list[Flight]] = deque()
        self.asking = Asking(parts, ledger.log)
        self.serial = 0
        self.retry_at = 0.0
        self.refilling = self.stopped = self.waiting = False

    # -- slots ---------------------------------------------------------------------------------------

    def vacate(self, flight: Flight) -> None:
        """A client no longer works; its slot is free."""
        flight.ended_s = self.world.now
        self.free += 1

    def dismiss(self, flight: Flight) -> None:
        """A job's fate is decided; its client can be selected again."""
        del self.live[flight.job.id]
        self.busy[flight.job.client] = False
        if flight.unit.departed:
            self.aggregator.release(flight.job.version)
        flight.unit = None  # which would otherwise wait for the collector of cycles

    def refill_soon(self) -> None:
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
        rule, now, participation = self.parts.rule, self.world.now, self.aggregator.tally.participation
        if now < self.retry_at:
            return False
        most = max(self.free, rule.lookahead or rule.buffer)
        deserted = self.free == rule.concurrency and not self.waiting
        tick, units = self.asking.ask(self.aggregator.version, self.busy, participation, most, now, deserted)
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

    # -- from the roster to the departure ------------------------------------------------------------

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
        cohort = self.parts.cohort(unit.tick, clients)
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
            self.refill_soon()

    def _launch(self, unit: Unit, said: Conversation) -> None:
        self.ledger.spend(said, self.aggregator.version)
        if isinstance(said.result, Prepared) and said.result.kept.all():
            unit.prepared = said.result.secret
            self._depart(unit)
        else:
            failed = isinstance(said.result, Failed)
            self.lost(unit, said.result.reason if failed else "a unit could not be prepared")

    def _depart(self, unit: Unit) -> None:
        """The models leave the server."""
        world, version, deadline_s = self.world, self.aggregator.version, self.parts.rule.deadline_s
        unit.departed, now, cost = True, world.now, self.ledger.cost
        if self.parts.learner.sizes_vary:
            self._resize(unit, version)
        for flight in unit.members:
            self.serial += 1
            flight.depart(version, now, self.serial)
            cost.bytes_down += flight.down_bytes
            cost.clear_bytes += flight.down_bytes
            world.at(flight.arrives_s, self.heard, flight)
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
            self.world.at(ends_s, self.late, flight, phase=DEADLINES)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Who is at work and who is to be, as named arrays."""
        waiting = [flight.job.id for unit in self.roster for flight in unit]
        return {
            "serial": np.int64(self.serial),
            "roster": np.array(waiting, dtype=np.int64),
            **prefixed("flight", saved(self.live.values())),
            **prefixed("asking", self.asking.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes back to a :meth:`state`; the aggregator must have been restored."""
        self.asking.restore(under("asking", state))
        self.serial = int(state["serial"])
        if waiting := state["roster"].tolist():
            clients = [job & 0xFFFFFFFF for job in waiting]
            units = np.array(clients, dtype=np.int32).reshape(-1, self.parts.policy.unit_size)
            self._enrol(waiting[0] >> 32, units)
        flights = flights_of(under("flight", state))
        self.live = {flight.job.id: flight for flight in flights}
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
        said: dict[Unit, Conversation] = {}
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
                self.world.at(each.arrives_s, self.heard, each)
                if deadline_s is not None:
                    self._set_deadline(each, deadline_s)
