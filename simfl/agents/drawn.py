"""The asynchronous server without a clock: staleness is drawn, as in arXiv 2110.02177, section 6."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregator import Aggregator
from simfl.agents.asking import PATIENCE, Asking, stalled
from simfl.agents.parts import Parts, Round
from simfl.agents.state import Arrays, prefixed, under
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.trace import JOBS
from simfl.types import Job, Units
from simfl.world import World

__all__ = ["DrawnServer"]

Log = Callable[[dict[str, Any]], None]
Row = tuple[Any, ...]
OUTCOME = JOBS.index("outcome")


class DrawnServer:
    """Aggregation t takes K clients by the policy; each has worked on the model of τ aggregations ago.

    τ is uniform on 0 ... min(max, t): one draw for a unit, or one for each client where the rule weighs its members
    apart. Nothing prevents a client from taking part while an older update of its own is on its way: there is no way.

    Args:
        parts: the built scenario.
        world: clock; every aggregation takes the same time.
        on_round: called with each finished :class:`Round`.
        log: called with a record for every event, or None.
    """

    def __init__(self, parts: Parts, world: World, on_round: Callable[[Round], None], log: Log | None = None) -> None:
        self.parts, self.world, self.on_round, self.log = parts, world, on_round, log
        self.aggregator = Aggregator(parts)
        self.aggregator.hold(0)
        self.asking = Asking(parts, log)

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
            begin = self.world.now
            kept, lost = yield from self._fill()
            yield self.world.wait(self.parts.rule.arrivals.seconds)
            done = self._aggregate(kept, lost, begin)
            last = done.last
            self.on_round(done)

    def _fill(self) -> Generator[Any, Any, tuple[dict[int, tuple[Job, int]], list[Row]]]:
        """Selects until K clients have delivered; their jobs and staleness by client, and the rows of other jobs."""
        rule, kept, lost = self.parts.rule, {}, []
        while len(kept) < rule.buffer:
            missing, taken = rule.buffer - len(kept), np.zeros(self.parts.clients, dtype=bool)
            taken[list(kept)] = True
            tick, units = self.asking.ask(
                self.aggregator.version, taken, self.tally.participation, missing, self.world.now, True
            )
            if not units.size:
                yield self.world.wait(rule.retry_s)
            if len(lost) > PATIENCE + 100 * rule.buffer:
                raise stalled(f"{len(lost)} jobs failed since the last server update", self.world.now)
            for unit in self._units(self._at_most(missing, units, tick), tick):
                self._judge(unit, kept, lost)
        return kept, lost

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
        lives = np.isnan(parts.failing.draw(clients, where)).reshape(units.shape)
        return [
            [
                (Job((tick << 32) | client, client, t - age, self.world.now), age, alive)
                for client, age, alive in zip(*columns, strict=True)
            ]
            for columns in zip(units.tolist(), staleness.tolist(), lives.tolist(), strict=True)
        ]

    def _judge(self, unit: list[tuple[Job, int, bool]], kept: dict[int, tuple[Job, int]], lost: list[Row]) -> None:
        whole, oldest = all(alive for _, _, alive in unit), max(age for _, age, _ in unit)
        if whole and not self.parts.rule.refuses(oldest):
            kept.update((job.client, (job, age)) for job, age, _ in unit)
            return
        for job, age, alive in unit:
            outcome = "stale" if whole else "forfeited" if alive else "failed"
            lost.append((*job, self.world.now, outcome, None, age if whole else None))

    def _aggregate(self, kept: dict[int, tuple[Job, int]], lost: list[Row], begin_s: float) -> Round:
        t, now, size = self.aggregator.version, self.world.now, self.parts.learner.model_bytes
        chosen = [kept[client] for client in sorted(kept)]
        staleness = np.array([age for _, age in chosen], dtype=np.int64)
        done = self.aggregator.aggregate([job for job, _ in chosen], staleness, now)
        rows = [*lost, *((*job, now, "aggregated", t, age) for job, age in chosen)]
        self._slide()
        if self.log is not None:
            self.log({"event": "round_start", "time_s": begin_s, "round": t})
            self.log({"event": "round_end", "time_s": now, "round": t, "cardinality": len(chosen)})
        uploaded = sum(row[OUTCOME] != "failed" for row in rows)
        cost = {"failed": len(lost), "bytes_down": size * len(rows), "bytes_up": size * uploaded}
        return replace(done, row=done.row | cost, jobs=rows)

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
            **self.aggregator.state(),
            **prefixed("asking", self.asking.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.aggregator.release(0)
        self.aggregator.restore(state, tally)
        for version in range(max(0, tally.rounds - self.parts.rule.arrivals.max), tally.rounds + 1):
            self.aggregator.hold(version)
        self.asking.restore(under("asking", state))
