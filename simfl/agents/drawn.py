"""The asynchronous server without a clock: staleness is drawn, as in arXiv 2110.02177, section 6."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import FRUITLESS, Asking, stalled
from simfl.agents.exchange import WORK, Conversation, computation, converse, message
from simfl.agents.parts import Cost, Parts, Phase, Round
from simfl.agents.servers import SERVERS, Log
from simfl.agents.state import Arrays, prefixed, under
from simfl.devices.base import checked_deaths
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.secagg.base import Failed, Prepared
from simfl.types import SERVER, Job, Units
from simfl.world import World

__all__ = ["DrawnServer"]

Row = tuple[Any, ...]
Member = tuple[Job, int]
"""A job and the staleness of its update."""


@dataclass
class _Filling:
    """What comes together for one aggregation: whole units with what prepared them, and what was lost on the way.

    ``fruitful``: how many jobs were lost when somebody delivered last.
    """

    units: list[tuple[list[Member], Any]]
    lost: list[Row]
    cost: Cost
    phases: list[Phase]
    fruitful: int = 0

    @property
    def clients(self) -> list[int]:
        return [job.client for unit, _ in self.units for job, _ in unit]


@SERVERS("drawn")
@dataclass(eq=False)
class DrawnServer:
    """Aggregation t takes K clients by the policy; each has worked on the model of τ aggregations ago.

    τ is uniform on 0 ... min(max, t): one draw for a unit, or one for each client where the rule weighs its members
    apart. Nothing prevents a client from taking part while an older update of its own is on its way: there is no way.
    A protocol's phases cost bytes, and those that recover the sum cost time.

    Args:
        parts: the built scenario.
        world: the clock; every aggregation takes the same time.
        on_round: called with each finished :class:`Round`.
        log: called with a record for every event, or None.
    """

    parts: Parts
    world: World
    on_round: Callable[[Round], None]
    log: Log | None = None

    def __post_init__(self) -> None:
        self.aggregator = Aggregator(self.parts)
        self.aggregator.hold(0)
        self.asking = Asking(self.parts, self.log)
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
        """Aggregates until the rule says that the run ends."""
        last = False
        while not last:
            self._note("round_start", round=self.aggregator.version)
            done = None
            filling = _Filling([], [], Cost(), [])
            while done is None:
                yield from self._fill(filling)
                yield self.world.wait(self.parts.rule.arrivals.seconds)
                done = yield from self._recover(filling)
            last = done.last
            self.on_round(done)

    def _fill(self, filling: _Filling) -> Generator[Any, Any, None]:
        """Selects until K clients have delivered."""
        rule = self.parts.rule
        while (missing := rule.buffer - len(filling.clients)) > 0:
            taken = np.zeros(self.parts.clients, dtype=bool)
            taken[filling.clients] = True
            tick, units = self.asking.ask(
                self.aggregator.version, taken, self.tally.participation, missing, self.world.now, True
            )
            if not units.size:
                yield self.world.wait(rule.retry_s)
            if (lost := len(filling.lost) - filling.fruitful) > FRUITLESS:
                raise stalled(f"{lost} jobs in a row have failed", self.world.now)
            for unit in self._units(self._at_most(missing, units, tick), tick):
                self._judge(unit, filling)

    def _at_most(self, clients: int, units: Units, tick: int) -> Units:
        """The units, clients one by one where the rule takes them so; a random part of them if more than fit."""
        if self.parts.rule.partial:
            units = units.reshape(-1, 1)
        if units.size <= clients:
            return units
        order = self.parts.streams("surplus", tick).permutation(len(units))
        return units[np.sort(order[: clients // units.shape[1]])]

    def _units(self, units: Units, tick: int) -> list[list[tuple[Job, int, bool]]]:
        """Each unit's jobs with their staleness and whether they deliver."""
        parts, rule, t = self.parts, self.parts.rule, self.aggregator.version
        clients = units.ravel()
        where = Address(tick, clients, parts.clients)
        u = parts.streams.at("staleness", where, lambda rng, size: rng.random(size)).reshape(units.shape)
        if rule.unit_weights == "common":
            u = np.broadcast_to(u[:, :1], units.shape)
        staleness = (u * (min(rule.arrivals.max, t) + 1)).astype(np.int64)
        death = checked_deaths(parts.failing.draw(clients, where, WORK), len(clients), parts.failing)
        lives = np.isnan(death).reshape(units.shape)
        return [
            [
                (Job((tick << 32) | client, client, t - age, self.world.now), age, alive)
                for client, age, alive in zip(*columns, strict=True)
            ]
            for columns in zip(units.tolist(), staleness.tolist(), lives.tolist(), strict=True)
        ]

    def _judge(self, unit: list[tuple[Job, int, bool]], filling: _Filling) -> None:
        said = self._prepared(unit, filling)
        whole, oldest = all(alive for _, _, alive in unit), max(age for _, age, _ in unit)
        ready = said is None or isinstance(said.result, Prepared) and bool(said.result.kept.all())
        if ready and whole and not self.parts.rule.refuses(oldest):
            filling.fruitful = len(filling.lost)
            filling.units.append(([(job, age) for job, age, _ in unit], None if said is None else said.result.secret))
            return
        stale = ready and whole
        if ready:
            self._spend_work(unit, filling.cost)
        for job, age, alive in unit:
            outcome = "stale" if stale else "forfeited" if ready and alive else "failed"
            filling.lost.append((*job, self.world.now, outcome, None, age if stale else None))
        self.parts.learner.forget(job for job, _, _ in unit)

    def _prepared(self, unit: list[tuple[Job, int, bool]], filling: _Filling) -> Conversation | None:
        """The protocol's talk before a unit's models went out; when that was, nobody says, so that it takes no time."""
        parts = self.parts
        if not parts.protocol.phases:
            return None
        clients, tick = np.array([[job.client for job, _, _ in unit]], dtype=np.int32), unit[0][0].id >> 32
        cohort = parts.cohort(tick, clients)
        said = converse(parts, parts.protocol.prepare(cohort, parts.streams), tick, self.world.now, "prepare")
        self._spend(said, filling, timeless=True)
        return said

    def _spend_work(self, unit: list[tuple[Job, int, bool]], cost: Cost) -> None:
        """The models and updates of a unit; only between its start and now, when it delivers, does time pass."""
        jobs, now = [job for job, _, _ in unit], self.world.now
        down, clear, _ = self.parts.learner.sizes(jobs)
        up = self.parts.upload_bytes(clear)
        lives = np.array([alive for _, _, alive in unit])
        down, up, clear = (np.broadcast_to(np.asarray(size, dtype=np.int64), len(unit)) for size in (down, up, clear))
        up = np.where(lives, up, 0)
        cost.bytes_down += int(down.sum())
        cost.bytes_up += int(up.sum())
        cost.clear_bytes += int(down.sum() + clear[lives].sum())
        cost.failed_upload += int((~lives).sum())
        if self.log is None:
            return
        for (job, _, alive), sent, back in zip(unit, down.tolist(), up.tolist(), strict=True):
            begun = job.started_at
            self.log(message("model", SERVER, job.client, sent, begun, begun))
            self.log(computation(job.id, job.client, begun, now, alive))
            self.log(message("update" if alive else "failure", job.client, SERVER, back, now, now))

    def _recover(self, filling: _Filling) -> Generator[Any, Any, Round | None]:
        """The protocol's sum of what was filled in; None if there is none, and it must be filled in again."""
        parts, t = self.parts, self.aggregator.version
        units = [unit for unit, _ in filling.units]
        clients = np.array([[job.client for job, _ in unit] for unit in units], dtype=np.int32)
        cohort = parts.cohort(t, clients)
        everybody, prepared = np.ones(clients.shape, dtype=bool), [made for _, made in filling.units]
        talk = parts.protocol.recover(cohort, everybody, prepared, parts.streams)
        said = converse(parts, talk, self.recoveries, self.world.now, "recover")
        self.recoveries += 1
        if said.exchanges:
            yield self.world.until(said.ends_s)
        self._spend(said, filling)
        failed = isinstance(said.result, Failed)
        kept = [False] * len(units) if failed else said.result.kept.tolist()
        members: list[Member] = []
        for unit, good in zip(units, kept, strict=True):
            self._spend_work([(job, age, True) for job, age in unit], filling.cost)
            if good:
                members += unit
            else:
                filling.lost += [(*job, self.world.now, "unrecovered", None, None) for job, _ in unit]
                parts.learner.forget(job for job, _ in unit)
        filling.units = []
        if not members:
            filling.fruitful = 0
        return self._aggregate(members, filling, said) if members else None

    def _aggregate(self, members: list[Member], filling: _Filling, said: Conversation) -> Round:
        t, now = self.aggregator.version, self.world.now
        members = sorted(members, key=lambda member: member[0].client)
        staleness = np.array([age for _, age in members], dtype=np.int64)
        filling.cost.failed = len(filling.lost)
        jobs = [job for job, _ in members]
        done = self.aggregator.aggregate(
            jobs, staleness, said.result, now, filling.cost, phases=filling.phases, row=said.result.row
        )
        rows = [*filling.lost, *((*job, now, "aggregated", t, age) for job, age in members)]
        self._slide()
        self._note("round_end", round=t, cardinality=len(done.clients))
        return replace(done, jobs=rows)

    def _spend(self, said: Conversation, filling: _Filling, timeless: bool = False) -> None:
        now = self.world.now
        for phase in said.phases(self.aggregator.version):
            filling.phases.append((*phase[:2], now, now, *phase[4:]) if timeless else phase)
        for one in said.exchanges:
            one.charge(filling.cost)
            if self.log is not None:
                for record in one.records():
                    self.log({k: now if timeless and k.endswith("_s") else v for k, v in record.items()})

    def _note(self, event: str, **record: Any) -> None:
        if self.log is not None:
            self.log({"event": event, "time_s": self.world.now, **record})

    def _slide(self) -> None:
        """Keeps the versions that an update of the next aggregation can have worked on."""
        version, window = self.aggregator.version, self.parts.rule.arrivals.max
        self.aggregator.hold(version)
        if version > window:
            self.aggregator.release(version - window - 1)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that the next aggregation depends on and no table holds, as named arrays."""
        return {
            "time_s": np.float64(self.world.now),
            "recoveries": np.int64(self.recoveries),
            **self.aggregator.state(),
            **prefixed("asking", self.asking.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.aggregator.release(0)
        self.aggregator.restore(state, tally)
        for version in range(max(0, tally.rounds - self.parts.rule.arrivals.max), tally.rounds + 1):
            self.aggregator.hold(version)
        self.recoveries = int(state["recoveries"])
        self.asking.restore(under("asking", state))
