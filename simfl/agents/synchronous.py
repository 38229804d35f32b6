"""The synchronous server agent (McMahan et al. 2017, Algorithm 1, on a clock)."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.client import Clients, Flight, plan
from simfl.agents.evaluation import Evaluation
from simfl.agents.parts import Parts, Round
from simfl.agents.state import prefixed, under
from simfl.devices.base import checked_available
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.selection.base import ask
from simfl.types import SERVER, Units, View
from simfl.world import Message, World

__all__ = ["SynchronousServer"]

Log = Callable[[dict[str, Any]], None]


class SynchronousServer:
    """Every round: ask the policy, send the model, wait for the cohort, aggregate the units that are whole.

    Its state between two rounds is explicit: :meth:`state` and :meth:`restore` are all that a checkpoint needs.

    Args:
        parts: the built scenario.
        world: clock and post.
        on_round: called with each finished :class:`Round`.
        log: called with a record for every event, or None.
    """

    def __init__(self, parts: Parts, world: World, on_round: Callable[[Round], None], log: Log | None = None) -> None:
        self.parts, self.world, self.on_round, self.log = parts, world, on_round, log
        self.tally = Tally(parts.clients)
        self.evaluation = Evaluation(parts)
        self.model = parts.learner.initial()
        self.optimiser = parts.rule.start(parts.learner.dimension)
        self.clients = Clients(world, log)
        self.mail = world.mailbox(SERVER)
        world.listen(self._receive, SERVER)
        parts.learner.put(0, self.model)

    def play(self) -> Generator[Any, Any, None]:
        """All rounds from the current one on."""
        while self.tally.rounds < self.parts.rule.rounds:
            self.on_round((yield from self._round(self.tally.rounds)))

    def _round(self, t: int) -> Generator[Any, Any, Round]:
        parts, world = self.parts, self.world
        available = checked_available(parts.available.draw(t, world.now), parts.clients, parts.available)
        view = View(t, available, self.tally.participation)
        units = ask(parts.policy, view, parts.policy.k, parts.streams("selection", t))
        self._note("round_start", round=t, available=int(available.sum()), selected=units.size)
        kept, loss, cost = units[:0], None, {"failed": 0, "bytes_down": 0, "bytes_up": 0}
        if units.size:
            flights, arrived, cost = yield from self._exchange(t, units.ravel())
            kept = self._whole(units, arrived.reshape(units.shape))
            loss = self._aggregate(flights, kept)
            if parts.rule.announce and kept.size:
                cost["bytes_down"] += self._announce(t, units.ravel())
        else:
            yield world.wait(parts.rule.skipped_round_s)
        parts.learner.put(t + 1, self.model)
        parts.learner.drop(t)
        clients = np.sort(kept, axis=None)
        self.tally.add(clients)
        self._note("round_end", round=t, cardinality=len(clients))
        row = {
            "round": t,
            "time_s": world.now,
            "skipped": int(clients.size == 0),
            "cardinality": len(clients),
            "mean_cardinality": self.tally.mean_cardinality,
            "fairness_gap": self.tally.fairness_gap,
            **cost,
            "train_loss": loss,
            **self.evaluation.after(t, changed=bool(clients.size), last=t + 1 == parts.rule.rounds),
        }
        return Round(t, clients, np.ones(len(clients), dtype=np.int64), row, t + 1 == parts.rule.rounds)

    def _exchange(self, t: int, cohort: NDArray[np.int32]) -> Generator[Any, Any, tuple[list[Flight], Any, dict]]:
        """Sends the model out and waits; the flights, which of them delivered, bool (n,), and what it cost."""
        rule, size = self.parts.rule, self.parts.learner.model_bytes
        flights = plan(self.parts, t, t, cohort, self.world.now)
        for flight in flights:
            self.clients.start(flight)
        urgent = "failure" if rule.on_failure == "abort" else None
        messages = yield self.mail.receive(len(cohort), rule.deadline_s, urgent)
        heard = {message.body for message in messages}
        for flight in flights:
            if flight not in heard:
                flight.cancelled = True
                self._note("cancel", round=t, client=flight.job.client)
        delivered = [message.body.job.client for message in messages if message.kind == "update"]
        failed = len(cohort) - len(delivered)
        cost = {"failed": failed, "bytes_down": size * len(cohort), "bytes_up": size * len(delivered)}
        return flights, np.isin(cohort, delivered), cost

    def _whole(self, units: Units, arrived: NDArray[np.bool_]) -> Units:
        """The units to aggregate: a unit that lost a member leaves whole, unless the rule says ``partial``."""
        if self.parts.rule.on_failure == "partial":
            return units[arrived].reshape(-1, 1)
        whole = units[arrived.all(axis=1)]
        return whole[:0] if self.parts.rule.on_failure == "abort" and len(whole) < len(units) else whole

    def _aggregate(self, flights: list[Flight], kept: Units) -> float | None:
        """Trains exactly the updates that count, in the order of their clients, and takes the server's step."""
        if not kept.size:
            return None
        parts, members = self.parts, set(kept.ravel().tolist())
        jobs = sorted((f.job for f in flights if f.job.client in members), key=lambda job: job.client)
        updates = parts.learner.train(jobs)
        weights = parts.rule.weights(updates.examples, np.zeros(len(jobs), dtype=np.int64))
        if parts.learner.dimension:
            self.model, self.optimiser = parts.rule.step(self.model, updates.deltas, weights, self.optimiser)
        return updates.mean_loss

    def _announce(self, t: int, cohort: NDArray[np.int32]) -> int:
        """Sends the new model to the round's clients without waiting for it to arrive; bytes sent."""
        size = self.parts.learner.model_bytes
        delays = self.parts.links.down_s(cohort, size, Address(t, cohort, self.parts.clients))
        for client, delay in zip(cohort.tolist(), delays.tolist()):
            self.world.send(Message("announcement", SERVER, client, None, size), self.world.now + delay)
        return size * len(cohort)

    def _receive(self, message: Message) -> None:
        if not message.body.cancelled:
            self.mail.deliver(message)

    def _note(self, event: str, **record: Any) -> None:
        if self.log is not None:
            self.log({"event": event, "time_s": self.world.now, **record})

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the next round depends on and no table holds, as named arrays."""
        return {
            "rounds": np.int64(self.tally.rounds),
            "time_s": np.float64(self.world.now),
            "model": self.model,
            **prefixed("evaluation", self.evaluation.state()),
            **prefixed("optimiser", self.optimiser),
            **prefixed("learner", self.parts.learner.state()),
            **prefixed("available", self.parts.available.state()),
        }

    def restore(self, state: dict[str, NDArray[Any]], tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.tally, self.model = tally, state["model"]
        self.evaluation.restore(under("evaluation", state))
        self.optimiser = under("optimiser", state)
        self.parts.learner.restore(under("learner", state))
        self.parts.available.restore(under("available", state))
        self.parts.learner.drop(0)
        self.parts.learner.put(tally.rounds, self.model)
