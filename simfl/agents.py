"""The server and its clients as processes on the world's clock.

A client is a row in arrays until a model reaches it; only then does a process run for it. The world decides
when an update arrives and whether it does; what it is gets computed later, in one batch, for those that count.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.devices.base import Available, Computing, Failing
from simfl.learning.base import Learner
from simfl.metrics import Tally
from simfl.network.base import Links
from simfl.rng import Address, Streams
from simfl.selection.base import Policy
from simfl.training.base import Rule, State
from simfl.types import SERVER, Job, Units, View
from simfl.world import Message, World

__all__ = ["Parts", "Server", "Round"]


@dataclass(frozen=True)
class Parts:
    """Everything a server works with, built from one scenario."""

    clients: int
    streams: Streams
    links: Links
    available: Available
    computing: Computing
    failing: Failing
    policy: Policy
    rule: Rule
    learner: Learner
    evaluate_every: int


class Session:
    """One exchange between the server and a cohort; what comes after it is closed is ignored."""

    def __init__(self) -> None:
        self.open = True


class Order(NamedTuple):
    """What a model message tells a client's process; the delays were drawn for the whole cohort at once."""

    job: Job
    session: Session
    compute_s: float
    lives: bool
    reply_s: float
    reply_bytes: int


@dataclass(frozen=True)
class Round:
    """What one synchronous round left behind.

    Attributes:
        number: the round, from 0.
        clients: int32 (n,): whose updates were aggregated.
        row: the cells of rounds.csv that the server knows.
    """

    number: int
    clients: NDArray[np.int32]
    row: dict[str, Any]


def client(world: World, order: Order, log: Callable[[dict[str, Any]], None] | None) -> Generator[Any, Any, None]:
    """A client's process from the model's arrival to its reply: an update, or the end of its connection."""
    job, begin = order.job, world.now
    yield world.wait(order.compute_s)
    if not order.session.open:
        return
    if log is not None:
        log({"event": "compute", "job": job.id, "client": job.client, "start_s": begin, "end_s": world.now,
             "completed": order.lives})  # fmt: skip
    kind = "update" if order.lives else "failure"
    world.send(Message(kind, job.client, SERVER, order, order.reply_bytes), order.reply_s)


class Server:
    """The synchronous server agent (McMahan et al. 2017, Algorithm 1, on a clock).

    Its state between two rounds is explicit: :meth:`state` and :meth:`restore` are all that a checkpoint needs.

    Args:
        parts: the built scenario.
        world: clock and post.
        on_round: called with each finished :class:`Round`.
        log: called with a record for every event, or None.
    """

    def __init__(
        self,
        parts: Parts,
        world: World,
        on_round: Callable[[Round], None],
        log: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.parts, self.world, self.log = parts, world, log
        self.on_round = on_round
        self.tally = Tally(parts.clients)
        self.round = 0
        self.model = parts.learner.initial()
        self.optimiser: State = parts.rule.start(parts.learner.dimension)
        self.evaluation: dict[str, float] = {}
        self._evaluated_version = -1
        self._model_version = 0
        self._mail = world.mailbox(SERVER)
        world.listen(self._arrived, SERVER)
        world.listen(self._reached_client)
        parts.learner.put(0, self.model)

    def play(self) -> Generator[Any, Any, None]:
        """All rounds from the current one on."""
        while self.round < self.parts.rule.rounds:
            done = yield from self._play_round(self.round)
            self.round += 1
            self.on_round(done)

    # -- one round -------------------------------------------------------------------------------

    def _play_round(self, t: int) -> Generator[Any, Any, Round]:
        parts, world = self.parts, self.world
        available = parts.available.draw(t, world.now)
        view = View(t, available, self.tally.participation)
        units = parts.policy.select(view, parts.policy.k, parts.streams("selection", t))
        self._note(event="round_start", round=t, time_s=world.now, available=int(available.sum()), selected=units.size)
        kept, cost = units[:0], {"failed": 0, "bytes_down": 0, "bytes_up": 0}
        if units.size:
            begin = world.now
            arrived, cost = yield from self._collect(t, units.ravel())
            kept = self._survivors(units, arrived.reshape(units.shape))
            loss = self._aggregate(t, np.sort(kept, axis=None), begin)
            if parts.rule.announce and kept.size:
                cost["bytes_down"] += self._announce(t, units.ravel())
        else:
            loss = None
            yield world.wait(parts.rule.skipped_round_s)
        clients = np.sort(kept, axis=None)
        self._advance_version(t)
        self.tally.add(clients)
        self._evaluate(t)
        self._note(event="round_end", round=t, time_s=world.now, cardinality=len(clients))
        row = {
            "round": t,
            "time_s": world.now,
            "skipped": int(clients.size == 0),
            "cardinality": len(clients),
            "mean_cardinality": self.tally.mean_cardinality,
            "fairness_gap": self.tally.fairness_gap,
            **cost,
            "train_loss": loss,
            **(self.evaluation if self._due(t) else {}),
        }
        return Round(t, clients, row)

    def _collect(self, t: int, cohort: NDArray[np.int32]) -> Generator[Any, Any, tuple[NDArray[np.bool_], dict]]:
        """Sends the model out and waits; who delivered, bool (n,), and what it cost."""
        parts, rule = self.parts, self.parts.rule
        where = Address(t, cohort, parts.clients)
        size = parts.learner.model_bytes
        death = parts.failing.draw(cohort, where)
        lives = np.isnan(death)
        compute = parts.computing.duration_s(cohort, parts.learner.samples[cohort], rule.local_epochs, where)
        compute = np.where(lives, compute, compute * np.where(lives, 0.0, death))
        up = parts.links.up_s(cohort, size, where)
        if not lives.all():
            up = np.where(lives, up, parts.links.up_s(cohort, 0, where))
        down = parts.links.down_s(cohort, size, where)
        session, begin = Session(), self.world.now
        for number, delay, work, alive, reply in zip(
            cohort.tolist(), down.tolist(), compute.tolist(), lives.tolist(), up.tolist()
        ):
            job = Job((t << 32) | number, number, t, begin)
            order = Order(job, session, work, alive, reply, size if alive else 0)
            self.world.send(Message("model", SERVER, number, order, size), delay)
        urgent = "failure" if rule.on_failure == "abort" else None
        messages = yield self._mail.receive(len(cohort), rule.deadline_s, urgent)
        session.open = False
        delivered = [message.body.job.client for message in messages if message.kind == "update"]
        arrived = np.isin(cohort, delivered)
        if self.log is not None:
            heard = {message.body.job.client for message in messages}
            for number in cohort.tolist():
                if number not in heard:
                    self._note(event="cancel", round=t, client=number, time_s=self.world.now)
        failed = int(len(cohort) - arrived.sum())
        return arrived, {"failed": failed, "bytes_down": size * len(cohort), "bytes_up": size * len(delivered)}

    def _survivors(self, units: Units, arrived: NDArray[np.bool_]) -> Units:
        """The units to aggregate after mid-round failures (science: a unit is aggregated whole or not at all)."""
        choice = self.parts.rule.on_failure
        if choice == "partial":
            return units[arrived].reshape(-1, 1)
        whole = units[arrived.all(axis=1)]
        return whole[:0] if choice == "abort" and len(whole) < len(units) else whole

    def _aggregate(self, t: int, clients: NDArray[np.int32], begin: float) -> float | None:
        """Trains exactly the updates that count and takes the server's step; the mean training loss."""
        if not clients.size:
            return None
        parts = self.parts
        jobs = [Job((t << 32) | number, number, t, begin) for number in clients.tolist()]
        updates = parts.learner.train(jobs)
        weights = parts.rule.weights(updates.examples, np.zeros(len(jobs), dtype=np.int64))
        if parts.learner.dimension:
            self.model, self.optimiser = parts.rule.step(self.model, updates.deltas, weights, self.optimiser)
            self._model_version = t + 1
        losses = np.where(updates.examples > 0, updates.loss, 0.0)
        total = updates.examples.sum()
        return float(losses @ updates.examples / total) if total else None

    def _announce(self, t: int, cohort: NDArray[np.int32]) -> int:
        """Sends the new model to the round's clients without waiting for it to arrive; bytes sent."""
        size = self.parts.learner.model_bytes
        delays = self.parts.links.down_s(cohort, size, Address(t, cohort, self.parts.clients))
        for number, delay in zip(cohort.tolist(), delays.tolist()):
            self.world.send(Message("announcement", SERVER, number, t, size), delay)
        return size * len(cohort)

    def _advance_version(self, t: int) -> None:
        self.parts.learner.put(t + 1, self.model)
        self.parts.learner.drop(t)

    def _due(self, t: int) -> bool:
        every = self.parts.evaluate_every
        return every > 0 and ((t + 1) % every == 0 or t + 1 == self.parts.rule.rounds)

    def _evaluate(self, t: int) -> None:
        if self._due(t) and self._evaluated_version != self._model_version:
            self.evaluation = self.parts.learner.evaluate(t + 1)
            self._evaluated_version = self._model_version

    # -- messages --------------------------------------------------------------------------------

    def _arrived(self, message: Message) -> None:
        if message.body.session.open:
            self._mail.deliver(message)

    def _reached_client(self, message: Message) -> None:
        if message.kind == "model" and message.body.session.open:
            self.world.spawn(client(self.world, message.body, self.log))

    def _note(self, **record: Any) -> None:
        if self.log is not None:
            self.log(record)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the next round depends on and no table holds, as named arrays."""
        return {
            "round": np.int64(self.round),
            "time_s": np.float64(self.world.now),
            "model": self.model,
            "versions": np.array([self._model_version, self._evaluated_version]),
            **{f"evaluation/{name}": np.float64(value) for name, value in self.evaluation.items()},
            **{f"optimiser/{name}": value for name, value in self.optimiser.items()},
            **{f"learner/{name}": value for name, value in self.parts.learner.state().items()},
            **{f"available/{name}": value for name, value in self.parts.available.state().items()},
        }

    def restore(self, state: dict[str, NDArray[Any]], tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""

        def part(prefix: str) -> dict[str, NDArray[Any]]:
            return {key[len(prefix) + 1 :]: value for key, value in state.items() if key.startswith(prefix + "/")}

        self.round, self.model, self.tally = int(state["round"]), state["model"], tally
        self._model_version, self._evaluated_version = (int(version) for version in state["versions"])
        self.evaluation = {name: float(value) for name, value in part("evaluation").items()}
        self.optimiser = part("optimiser")
        self.parts.learner.restore(part("learner"))
        self.parts.available.restore(part("available"))
        self.parts.learner.drop(0)
        self.parts.learner.put(self.round, self.model)
