"""One exchange of a server with a cohort: a request to each, its work, the answers; arrays, not messages.

What happens in an exchange is known when it begins, so that one nobody watches message by message costs the clock
one event. A message belongs to its exchange: what arrives after its end counts nowhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.parts import Cost, Parts, Phase
from simfl.devices.base import checked_deaths, checked_durations_s
from simfl.learning.base import Sizes
from simfl.network.base import checked_delays_s
from simfl.rng import Address
from simfl.secagg.base import Ask, Failed, Summed, Talk
from simfl.types import SERVER

__all__ = ["WORK", "Conversation", "Exchange", "Legs", "converse", "exchange", "legs", "work"]

WORK = "work"
"""The kind of exchange in which the model goes out, is trained, and the update comes back."""

MESSAGES = {WORK: ("model", "update")}
"""What request and answer are called in traces; those of a protocol's phase by the phase's name."""

Floats = NDArray[np.float64]
Log = Any


class Legs(NamedTuple):
    """A cohort's ways, drawn at once: to each client, its work, and back.

    Attributes:
        down_s, compute_s, up_s: seconds, (n,).
        lives: False where the client dies in its work; its answer is then the end of its connection, of 0 bytes.
        down_bytes, up_bytes: sizes of request and answer, int64 (n,).
    """

    down_s: Floats
    compute_s: Floats
    up_s: Floats
    lives: NDArray[np.bool_]
    down_bytes: NDArray[np.int64]
    up_bytes: NDArray[np.int64]


def legs(parts: Parts, ask: Ask, where: Address, leg: str = "") -> Legs:
    """Draws a cohort's ways.

    Args:
        parts: the built scenario.
        ask: what is asked of whom.
        where: address of the draws.
        leg: tells exchanges at one address apart, so that no two messages share their jitter.
    """
    clients, n = ask.to, len(ask.to)
    death = checked_deaths(parts.failing.draw(clients, where, ask.kind), n, parts.failing)
    lives = np.isnan(death)
    compute = np.broadcast_to(np.asarray(ask.compute_s, dtype=np.float64), n)
    up = checked_delays_s(parts.links.up_s(clients, ask.up_bytes, where, leg), n, parts.links)
    up_bytes = np.broadcast_to(np.asarray(ask.up_bytes, dtype=np.int64), n)
    if not lives.all():
        compute = compute * np.where(lives, 1.0, death)
        up = np.where(lives, up, parts.links.up_s(clients, 0, where, leg))
        up_bytes = np.where(lives, up_bytes, 0)
    down = checked_delays_s(parts.links.down_s(clients, ask.down_bytes, where, leg), n, parts.links)
    return Legs(down, compute, up, lives, np.broadcast_to(np.asarray(ask.down_bytes, dtype=np.int64), n), up_bytes)


def work(parts: Parts, clients: NDArray[np.int32], where: Address, sizes: Sizes, version: int = 0) -> Ask:
    """The request to train.

    Args:
        parts: the built scenario.
        clients: whom it goes to, (n,).
        where: address of the draws.
        sizes: bytes of model and update, and passes, as the learner says.
        version: of the model that goes out; where data grow it tells how many samples are there.
    """
    samples = parts.learner.counts(clients, version)
    epochs = parts.rule.epochs(samples) * sizes.passes
    compute_s = parts.computing.duration_s(clients, samples, epochs, where)
    compute_s = checked_durations_s(compute_s, len(clients), parts.computing)
    return Ask(WORK, clients, sizes.down_bytes, parts.upload_bytes(sizes.up_bytes), compute_s)


@dataclass(frozen=True)
class Exchange:
    """An exchange from its first message to the moment at which the server goes on.

    Attributes:
        ask: what was asked.
        begins_s: when the requests left, simulated seconds.
        received_s, computed_s, arrives_s: when each client had its request, had done its work, and when its answer
            (or the end of its connection) reaches the server, (n,).
        legs: the ways.
        ends_s: when the server goes on.
        heard: bool (n,): whose answer had arrived then.
    """

    ask: Ask
    begins_s: float
    received_s: Floats
    computed_s: Floats
    arrives_s: Floats
    legs: Legs
    ends_s: float
    heard: NDArray[np.bool_]

    @property
    def bytes_down(self) -> int:
        """Bytes the server sent."""
        return int(self.legs.down_bytes.sum())

    @property
    def bytes_up(self) -> int:
        """Bytes that reached the server in time."""
        return int(self.legs.up_bytes[self.heard].sum())

    @property
    def failed(self) -> int:
        """Clients that died or were too late; with enough answers, those on their way are not waited for."""
        enough = self.ask.quorum is not None and self.heard.sum() >= self.ask.quorum
        return int((~self.legs.lives if enough else ~self.heard).sum())

    def charge(self, cost: Cost) -> None:
        """Adds its bytes to a cost."""
        cost.bytes_down += self.bytes_down
        cost.bytes_up += self.bytes_up

    def phase(self, round: int, failure: str | None = None) -> Phase:
        """As a row of phases.csv."""
        asked, answered = len(self.ask.to), int(self.heard.sum())
        cost = (self.bytes_down, self.bytes_up)
        return (round, self.ask.kind, self.begins_s, self.ends_s, asked, answered, *cost, self.failed, failure)

    def records(self, jobs: NDArray[np.int64] | None = None) -> Iterator[dict[str, Any]]:
        """As records of events.jsonl, in the order of their times; ``jobs`` are the numbers of the clients' jobs."""
        request, answer = MESSAGES.get(self.ask.kind, (f"{self.ask.kind} request", self.ask.kind))
        found: list[tuple[float, dict[str, Any]]] = []
        names = range(len(self.ask.to)) if jobs is None else jobs.tolist()
        columns = (self.ask.to, self.received_s, self.computed_s, self.arrives_s, *self.legs[3:])
        rows = zip(*(column.tolist() for column in columns), names)
        for client, received, computed, arrives, lives, down, up, job in rows:
            found.append((self.begins_s, message(request, SERVER, client, down, self.begins_s, received)))
            if self.ask.kind == WORK and (received < self.ends_s or computed <= self.ends_s):  # work of no time too
                end, completed = (computed, lives) if computed <= self.ends_s else (self.ends_s, False)
                found.append((end, computation(job, client, received, end, completed)))
            if computed <= self.ends_s:
                kind = answer if lives else "failure"
                found.append((computed, message(kind, client, SERVER, up, computed, arrives)))
            if arrives > self.ends_s:
                found.append((self.ends_s, {"event": "cancel", "time_s": self.ends_s, "client": client}))
        return (record for _, record in sorted(found, key=lambda timed: timed[0]))


def message(kind: str, sender: int, to: int, size_bytes: int, sent_s: float, arrives_s: float) -> dict[str, Any]:
    """A message as a record of events.jsonl."""
    return {"event": "message", "kind": kind, "from": sender, "to": to, "bytes": size_bytes, "sent_s": sent_s,
            "arrives_s": arrives_s}  # fmt: skip


def computation(job: int, client: int, start_s: float, end_s: float, completed: bool | None) -> dict[str, Any]:
    """A client's work as a record of events.jsonl; ``completed`` is None where it goes on after the record."""
    return {"event": "compute", "job": job, "client": client, "start_s": start_s, "end_s": end_s,
            "completed": completed}  # fmt: skip


def exchange(ask: Ask, ways: Legs, begins_s: float, until_failure: bool = False) -> Exchange:
    """Puts a cohort's ways on the clock.

    The server goes on when all answers are in (or the news that they will not come), when the quorum has answered, at
    the deadline or, if asked to, at the first failure it hears of; an answer that arrives just then counts.
    """
    received = begins_s + ways.down_s
    computed = received + ways.compute_s
    arrives = computed + ways.up_s
    ends = float(arrives.max(initial=begins_s))
    if ask.quorum is not None and (answers := np.sort(arrives[ways.lives])).size >= ask.quorum:
        ends = float(answers[ask.quorum - 1]) if ask.quorum else begins_s
    if ask.deadline_s is not None:
        ends = min(ends, begins_s + ask.deadline_s)
    if until_failure:
        ends = min(ends, float(arrives[~ways.lives].min(initial=ends)))
    return Exchange(ask, begins_s, received, computed, arrives, ways, ends, ways.lives & (arrives <= ends))


class Conversation(NamedTuple):
    """A whole talk.

    Attributes:
        name: what it is for.
        ends_s: when it ends, simulated seconds.
        result: what the talk returned.
        exchanges: its phases.
    """

    name: str
    ends_s: float
    result: Any
    exchanges: list[Exchange]

    def phases(self, round: int) -> list[Phase]:
        """Its rows of phases.csv; a failure stands with the last phase."""
        last = len(self.exchanges) - 1
        failure = self.result.reason if isinstance(self.result, Failed) else None
        if failure is not None and not self.exchanges:  # it had nobody left to ask
            return [(round, self.name, self.ends_s, self.ends_s, 0, 0, 0, 0, 0, failure)]
        return [each.phase(round, failure if i == last else None) for i, each in enumerate(self.exchanges)]


def converse(parts: Parts, talk: Talk, tick: int, begins_s: float, leg: str) -> Conversation:
    """Plays a protocol's talk: it depends on nothing that happens meanwhile, so that its end is known at once.

    Args:
        parts: the built scenario.
        talk: what is said.
        tick: with the clients, the address of the draws.
        begins_s: when it begins.
        leg: tells talks at one address apart.
    """
    exchanges: list[Exchange] = []
    now = begins_s
    try:
        ask = next(talk)
        while True:
            where = Address(tick, ask.to, parts.clients)
            one = exchange(ask, legs(parts, ask, where, f"/{leg}/{len(exchanges)}"), now)
            exchanges.append(one)
            now = one.ends_s
            ask = talk.send(one.heard)
    except StopIteration as end:
        result = end.value
        return Conversation(leg, now + (result.compute_s if isinstance(result, Summed) else 0.0), result, exchanges)
