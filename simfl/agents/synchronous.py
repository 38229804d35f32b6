"""The synchronous server agent (McMahan et al. 2017, Algorithm 1, on a clock)."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import PATIENCE, stalled
from simfl.agents.exchange import Exchange, converse, exchange, legs, message, work
from simfl.agents.parts import Cost, Parts, Phase, Round
from simfl.agents.servers import SERVERS, Log
from simfl.agents.state import Arrays, prefixed, under
from simfl.devices.base import checked_available
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.secagg.base import Ask, Failed, Prepared, Summed, Talk
from simfl.selection.base import ask as ask_policy
from simfl.types import SERVER, Job, Units, View
from simfl.world import World

__all__ = ["SynchronousServer"]

SCORE_BYTES = 8
"""Of an accuracy on the wire."""


@SERVERS("synchronous")
@dataclass(eq=False)
class SynchronousServer:
    """Every round: ask the policy, prepare the sum, send the model, wait for the cohort, recover the sum, step.

    Its state between two rounds is explicit: :meth:`state` and :meth:`restore` are all that a checkpoint needs.

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
        """All rounds from the current one on."""
        last, fruitless = False, 0
        if not self.tally.rounds:
            yield from self._set_up()
        while not last:
            done = yield from self._round(self.tally.rounds)
            last = done.last
            self.on_round(done)
            fruitless = 0 if len(done.clients) else fruitless + 1
            if fruitless >= PATIENCE and self.parts.rule.most_rounds is None:
                raise stalled(f"{PATIENCE} rounds in a row have summed nothing", self.world.now)

    def _set_up(self) -> Generator[Any, Any, None]:
        """What the protocol does once; it counts for the first round."""
        everybody = np.arange(self.parts.clients, dtype=np.int32).reshape(-1, 1)
        talk = self.parts.protocol.setup(self.parts.cohort(0, everybody), self.parts.streams)
        yield from self._talk(0, talk, "setup", self.cost, self.phases)
        yield from self._apart(everybody.ravel())

    def _apart(self, everybody: NDArray[np.int32]) -> Generator[Any, Any, None]:
        """What clients do alone before the first round, and the choice of a model among theirs; it counts for that."""
        parts = self.parts
        if (alone := parts.learner.apart()) is None:
            return
        where = Address(-1, everybody, parts.clients)
        ask = work(parts, everybody, where, alone.sizes)
        one = exchange(ask, legs(parts, ask, where), self.world.now)
        yield self.world.until(one.ends_s)
        self._close(one, self.cost)
        heard = everybody[one.heard]
        where = Address(-1, heard, parts.clients)
        ask = Ask("choose", heard, one.bytes_up, SCORE_BYTES * len(heard))
        two = exchange(ask, legs(parts, ask, where, "/choose"), self.world.now)
        yield self.world.until(two.ends_s)
        self._close(two, self.cost)
        if (best := alone.best(one.heard)) is not None:
            self.aggregator.begin_with(parts.learner.begin_with(alone, best))

    def _round(self, t: int) -> Generator[Any, Any, Round]:
        parts, policy = self.parts, self.parts.policy
        available = checked_available(parts.available.draw(t, self.world.now), parts.clients, parts.available)
        available = available & self.aggregator.present
        view = View(t, available, self.tally.participation)
        units = ask_policy(policy, view, policy.k, parts.streams("selection", t))
        if self.log is not None:
            self._note({"event": "round_start", "round": t, "available": int(available.sum()), "selected": units.size})
        cost, phases, result = self.cost, self.phases, None
        jobs: list[Job] = []
        self._begin_round()
        if units.size:
            result, jobs = yield from self._play(t, units, cost, phases)
        else:
            yield self.world.wait(parts.rule.skipped_round_s)
        done = result if isinstance(result, Summed) and result.kept.any() else None
        kept = [] if done is None else _kept(jobs, done, units)
        if kept and parts.rule.announce:
            cost.bytes_down += self._announce(t, jobs)
        row = {} if result is None else result.row
        finished = self.aggregator.aggregate(kept, None, done, self.world.now, cost, phases=phases, row=row)
        for client in self.aggregator.left:
            self._note({"event": "leave", "round": t, "client": client})
        self._note({"event": "round_end", "round": t, "cardinality": len(finished.clients)})
        parts.learner.forget(jobs)
        return finished

    def _play(
        self, t: int, units: Units, cost: Cost, phases: list[Phase]
    ) -> Generator[Any, Any, tuple[Summed | Failed | None, list[Job]]]:
        """The round's conversations; the protocol's end (None: the round was aborted), and the jobs, unit by unit."""
        parts, rule, protocol = self.parts, self.parts.rule, self.parts.protocol
        whole = units.reshape(-1, 1) if rule.on_failure == "partial" else units
        cohort = parts.cohort(t, whole)
        prepared = yield from self._talk(t, protocol.prepare(cohort, parts.streams), "prepare", cost, phases)
        if isinstance(prepared, Failed):
            cost.failed += whole.size
            return prepared, []
        now = self.world.now
        jobs = [Job((t << 32) | client, client, t, now) for client in whole.ravel().tolist()]
        going = np.repeat(prepared.kept, whole.shape[1])
        arrived = np.zeros(len(jobs), dtype=bool)
        arrived[going] = yield from self._work(t, jobs, going, _besides(prepared, whole), cost)
        cost.failed += len(jobs) - int(arrived.sum())
        if rule.on_failure == "abort" and not arrived.all():
            return None, jobs
        uploaded = arrived.reshape(whole.shape)
        recover = protocol.recover(cohort, uploaded, [prepared.secret], parts.streams)
        return (yield from self._talk(t, recover, "recover", cost, phases)), jobs

    def _work(
        self, t: int, everybody: list[Job], going: NDArray[np.bool_], besides: tuple[Any, Any], cost: Cost
    ) -> Generator[Any, Any, NDArray[np.bool_]]:
        """Sends the model out to those going and waits; whose update arrived in time, a bool for each of them."""
        parts, rule = self.parts, self.parts.rule
        jobs = [everybody[i] for i in np.flatnonzero(going)]
        clients = np.fromiter((job.client for job in jobs), dtype=np.int32, count=len(jobs))
        where = Address(t, clients, parts.clients)
        sizes = parts.learner.sizes(jobs)
        ask = work(parts, clients, where, sizes, t)
        down, seconds = (each[going] for each in besides)
        ask = ask._replace(
            down_bytes=ask.down_bytes + down, compute_s=ask.compute_s + seconds, deadline_s=rule.deadline_s
        )
        one = exchange(ask, legs(parts, ask, where), self.world.now, until_failure=rule.on_failure == "abort")
        yield self.world.until(one.ends_s)
        self._close(one, cost, (np.int64(t) << 32) | clients.astype(np.int64))
        in_clear = [np.broadcast_to(np.asarray(size, dtype=np.int64), len(jobs)) for size in sizes[:2]]
        cost.clear_bytes += int(in_clear[0].sum() + in_clear[1][one.heard].sum())
        cost.failed_upload += one.failed
        return one.heard

    def _talk(self, t: int, talk: Talk, leg: str, cost: Cost, phases: list[Phase]) -> Generator[Any, Any, Any]:
        said = converse(self.parts, talk, t, self.world.now, leg)
        if said.exchanges:
            yield self.world.until(said.ends_s)
        phases += said.phases(t)
        for one in said.exchanges:
            self._close(one, cost)
        return said.result

    def _close(self, one: Exchange, cost: Cost, jobs: NDArray[np.int64] | None = None) -> None:
        one.charge(cost)
        if self.log is not None:
            for record in one.records(jobs):
                self.log(record)

    def _announce(self, t: int, jobs: list[Job]) -> int:
        """Sends the new model to the round's clients without waiting for it to arrive; bytes sent."""
        parts, now = self.parts, self.world.now
        cohort = np.array([job.client for job in jobs], dtype=np.int32)
        sizes = np.broadcast_to(np.asarray(parts.learner.sizes(jobs)[0], dtype=np.int64), len(jobs))
        delays = parts.links.down_s(cohort, sizes, Address(t, cohort, parts.clients), "/announcement")
        if self.log is not None:
            for client, size, delay in zip(cohort.tolist(), sizes.tolist(), delays.tolist()):
                self.log(message("announcement", SERVER, client, size, now, now + delay))
        return int(sizes.sum())

    def _begin_round(self) -> None:
        self.cost = Cost()
        self.phases: list[Phase] = []

    def _note(self, record: dict[str, Any]) -> None:
        if self.log is not None:
            self.log({"event": record.pop("event"), "time_s": self.world.now, **record})

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that the next round depends on and no table holds, as named arrays."""
        return {
            "time_s": np.float64(self.world.now),
            **self.aggregator.state(),
            **prefixed("available", self.parts.available.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.aggregator.restore(state, tally)
        self.parts.available.restore(under("available", state))


def _besides(prepared: Prepared, units: Units) -> tuple[NDArray[Any], NDArray[Any]]:
    """Bytes and seconds that the protocol adds to each client's work, (n,) each."""
    down = np.broadcast_to(np.asarray(prepared.down_bytes, dtype=np.int64), units.shape)
    return down.ravel(), np.broadcast_to(np.asarray(prepared.compute_s, dtype=np.float64), units.shape).ravel()


def _kept(jobs: list[Job], done: Summed, units: Units) -> list[Job]:
    """The jobs of the units in the sum, by client."""
    kept = np.repeat(done.kept, units.size // len(done.kept))
    return sorted((jobs[i] for i in np.flatnonzero(kept)), key=lambda job: job.client)
