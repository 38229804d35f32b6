"""Clients that train together without a server: everybody sends to everybody, and each of them aggregates."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.exchange import WORK, computation, message, work
from simfl.agents.parts import Cost, Parts, Phase, Round
from simfl.agents.servers import SERVERS, Log
from simfl.agents.state import Arrays, prefixed, under
from simfl.devices.base import checked_available, checked_deaths
from simfl.metrics import Tally
from simfl.network.base import checked_delays_s
from simfl.rng import Address
from simfl.secagg.base import Summed
from simfl.selection.base import ask
from simfl.types import Job, Units, View
from simfl.world import World

__all__ = ["Serverless"]

Floats = NDArray[np.float64]


class _Sent(NamedTuple):
    """A round's messages: from each of n senders to each of m receivers.

    Attributes:
        begun_s, done_s: when each sender began and ended its work, (n,).
        arrives_s: when its message reaches each receiver, (n, m); of the dead the end of their connection.
        lives: who did not die at work, (n,).
        size_bytes: of the message of each, (n,).
    """

    begun_s: Floats
    done_s: Floats
    arrives_s: Floats
    lives: NDArray[np.bool_]
    size_bytes: NDArray[np.int64]


@SERVERS("serverless")
@dataclass(eq=False)
class Serverless:
    """Rounds of messages between clients; a client goes on as soon as it has heard from everybody at work.

    All that are left get every message, so that all have the same aggregate: it is computed once and stands in
    ``participation.csv`` for each of them. A round's time is that at which the last of them has its model.

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
        self.ready_s = np.full(self.parts.clients, self.world.now)

    @property
    def tally(self) -> Tally:
        """Who was aggregated so far."""
        return self.aggregator.tally

    @property
    def model(self) -> NDArray[np.float32]:
        """The current model of every client."""
        return self.aggregator.model

    def play(self) -> Generator[Any, Any, None]:
        """All rounds from the current one on."""
        last, cost, phases = False, Cost(), list[Phase]()
        if not self.tally.rounds:
            yield from self._set_up(cost, phases)
        while not last:
            done = yield from self._round(self.tally.rounds, cost, phases)
            last = done.last
            self.on_round(done)
            cost, phases = Cost(), []

    def _set_up(self, cost: Cost, phases: list[Phase]) -> Generator[Any, Any, None]:
        """What the protocol does once: everybody sends each other client a part of its answer."""
        n, talk = self.parts.clients, None
        everybody = np.arange(n, dtype=np.int32)
        talk = self.parts.protocol.setup(self.parts.cohort(0, everybody.reshape(-1, 1)), self.parts.streams)
        for i, asked in enumerate(talk):
            each = np.broadcast_to(np.asarray(asked.up_bytes, dtype=np.int64) // max(1, n - 1), n)
            begun = self.world.now
            ways = self._ways_s(0, everybody, everybody, each, f"/setup/{i}")
            compute = np.broadcast_to(np.asarray(asked.compute_s, dtype=np.float64), n)
            self.ready_s = (begun + ways).max(axis=0) + compute
            yield self.world.until(float(self.ready_s.max()))
            size = int(each.sum()) * (n - 1)
            cost.bytes_up += size
            phases.append((0, asked.kind, begun, self.world.now, n, n, 0, size, 0, None))

    def _round(self, t: int, cost: Cost, phases: list[Phase]) -> Generator[Any, Any, Round]:
        parts, present = self.parts, self.aggregator.present
        available = checked_available(parts.available.draw(t, self.world.now), parts.clients, parts.available)
        view = View(t, available & present, self.tally.participation)
        units = ask(parts.policy, view, parts.policy.k, parts.streams("selection", t))
        self._note("round_start", round=t, available=int(view.available.sum()), selected=units.size)
        receivers = np.flatnonzero(present).astype(np.int32)
        result, kept, row = None, list[Job](), {}
        if units.size:
            jobs = [Job((t << 32) | client, client, t, self.world.now) for client in units.ravel().tolist()]
            sent = self._send(t, jobs, units, receivers, cost)
            self.ready_s[receivers] = sent.arrives_s.max(axis=0)
            yield self.world.until(float(self.ready_s[receivers].max(initial=self.world.now)))
            cost.failed += int((~sent.lives).sum())
            cost.failed_upload += int((~sent.lives).sum())
            result = self._summed(t, units, sent.lives)
            row = result.row
            if isinstance(result, Summed):
                whole = np.repeat(result.kept, units.shape[1])
                kept = sorted((jobs[i] for i in np.flatnonzero(whole)), key=lambda job: job.client)
            else:
                phases.append((t, "recover", self.world.now, self.world.now, 0, 0, 0, 0, 0, result.reason))
        else:
            yield self.world.wait(parts.rule.skipped_round_s)
            self.ready_s[:] = self.world.now
        done = result if isinstance(result, Summed) and kept else None
        made = self.aggregator.aggregate(kept, None, done, self.world.now, cost, phases=phases, row=row)
        for client in self.aggregator.left:
            self._note("leave", round=t, client=client)
        self._note("round_end", round=t, cardinality=len(made.clients))
        n, m = len(made.clients), len(receivers)
        who = np.repeat(receivers, n)
        return replace(made, clients=np.tile(made.clients, m), weights=np.tile(made.weights, m), aggregators=who)

    def _send(self, t: int, jobs: list[Job], units: Units, receivers: NDArray[np.int32], cost: Cost) -> _Sent:
        """Works and sends; what is known of it when the round begins."""
        parts, clients = self.parts, units.ravel()
        where = Address(t, clients, parts.clients)
        sizes = parts.learner.sizes(jobs)
        asked = work(parts, clients, where, sizes, t)
        death = checked_deaths(parts.failing.draw(clients, where, WORK), len(clients), parts.failing)
        lives = np.isnan(death)
        begun = self.ready_s[clients]
        done = begun + asked.compute_s * np.where(lives, 1.0, death)
        size = np.where(lives, np.broadcast_to(np.asarray(asked.up_bytes, dtype=np.int64), len(clients)), 0)
        arrives = done[:, None] + self._ways_s(t, clients, receivers, size, "")
        others = (len(receivers) - np.isin(clients, receivers)) * lives
        cost.bytes_up += int((size * others).sum())
        cost.clear_bytes += int((np.asarray(sizes[1]) * others).sum())
        sent = _Sent(begun, done, arrives, lives, size)
        self._record(jobs, receivers, sent)
        return sent

    def _ways_s(
        self, t: int, senders: NDArray[np.int32], receivers: NDArray[np.int32], size: NDArray[np.int64], leg: str
    ) -> Floats:
        """Seconds from each sender to each receiver, (n, m); 0 to itself."""
        n, all_pairs = self.parts.clients, (len(senders), len(receivers))
        source = np.broadcast_to(senders[:, None], all_pairs).ravel()
        to = np.broadcast_to(receivers, all_pairs).ravel()
        where = Address(t, source.astype(np.int64) * n + to, n * n)
        size_of = np.broadcast_to(size[:, None], all_pairs).ravel()
        delays = self.parts.links.between_s(source, to, size_of, where, leg)
        return checked_delays_s(delays, len(to), self.parts.links).reshape(all_pairs)

    def _summed(self, t: int, units: Units, lives: NDArray[np.bool_]) -> Any:
        """The protocol's end; it has nobody to ask."""
        cohort = self.parts.cohort(t, units)
        talk = self.parts.protocol.recover(cohort, lives.reshape(units.shape), [None], self.parts.streams)
        try:
            next(talk)
        except StopIteration as end:
            return end.value
        raise AssertionError("a protocol with phases has been refused")

    def _record(self, jobs: list[Job], receivers: NDArray[np.int32], sent: _Sent) -> None:
        if self.log is None:
            return
        found: list[tuple[float, dict[str, Any]]] = []
        for job, begun, done, arrives, lives, size in zip(jobs, *(column.tolist() for column in sent), strict=True):
            found.append((begun, computation(job.id, job.client, begun, done, lives)))
            kind = "update" if lives else "failure"
            for to, at in zip(receivers.tolist(), arrives, strict=True):
                if to != job.client:
                    found.append((done, message(kind, job.client, to, size, done, at)))
        for _, record in sorted(found, key=lambda timed: timed[0]):
            self.log(record)

    def _note(self, event: str, **record: Any) -> None:
        if self.log is not None:
            self.log({"event": event, "time_s": self.world.now, **record})

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that the next round depends on and no table holds, as named arrays."""
        return {
            "time_s": np.float64(self.world.now),
            "ready_s": self.ready_s,
            **self.aggregator.state(),
            **prefixed("available", self.parts.available.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.ready_s = np.array(state["ready_s"])
        self.aggregator.restore(state, tally)
        self.parts.available.restore(under("available", state))
