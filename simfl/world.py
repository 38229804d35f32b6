"""The clock and the post: agents wait, send and receive; nothing else moves simulated time.

The only module that knows SimPy. Events at equal times happen in the order in which they were scheduled,
those of a later phase after all others.
"""

from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any, NamedTuple

import simpy
from simpy.events import NORMAL

from simfl.errors import SimflError

__all__ = ["World", "Message", "StallError"]


class StallError(SimflError):
    """Nothing is left to happen, but the run's end was not reached (exit 1: a bug in an agent)."""

    exit_code = 1


class Message(NamedTuple):
    """What travels between agents.

    Attributes:
        kind: ``"model"``, ``"update"``, ``"failure"`` or ``"announcement"``.
        sender: address of the sending agent; :data:`simfl.types.SERVER` or a client.
        to: address of the receiving agent.
        body: what the receiver needs.
        size_bytes: size on the wire.
    """

    kind: str
    sender: int
    to: int
    body: Any
    size_bytes: int


class _Call:
    """An event of SimPy's queue that is nothing but a call to make; a third of an ``Event`` in time and memory."""

    __slots__ = ("action", "callbacks", "value")

    _ok = True

    def __init__(self, action: Callable[[Any], None], value: Any) -> None:
        self.action, self.value = action, value
        self.callbacks = _MAKE


def _make(call: _Call) -> None:
    call.action(call.value)


_MAKE = (_make,)


class _Clock(simpy.Environment):
    """SimPy's environment with absolute times: ``now + (t - now)`` need not be ``t`` in floating point, and a
    resumed run must meet every pending event at exactly the time an undisturbed run does.
    """

    def at(self, time_s: float, action: Callable[[Any], None], value: Any, phase: int = 0) -> None:
        heappush(self._queue, (time_s, NORMAL + phase, next(self._eid), _Call(action, value)))


class World:
    """Simulated time, message delivery and agent processes.

    Args:
        start_s: simulated time at which the world starts, seconds (not 0 after a resume).
        log: called with (message, sent_s, arrives_s) for every message sent, or None.
    """

    def __init__(self, start_s: float = 0.0, log: Callable[[Message, float, float], None] | None = None) -> None:
        self._env = _Clock(initial_time=start_s)
        self._log = log
        self._agents: dict[int, Callable[[Message], None]] = {}
        self._default: Callable[[Message], None] | None = None

    @property
    def now(self) -> float:
        """Simulated time, seconds."""
        return self._env.now

    def spawn(self, process: Generator[simpy.Event, Any, Any]) -> simpy.Process:
        """Starts an agent's process, a generator that yields what :meth:`wait` and mailboxes return."""
        return simpy.Process(self._env, process)

    def wait(self, seconds: float) -> simpy.Event:
        """An event ``seconds`` from now."""
        return simpy.Timeout(self._env, seconds)

    def event(self) -> simpy.Event:
        """An event to wait for that an agent makes happen with ``succeed(value)``."""
        return self._env.event()

    def at(self, time_s: float, action: Callable[[Any], None], value: Any = None, phase: int = 0) -> None:
        """Calls ``action(value)`` at simulated time ``time_s``, not before now.

        Args:
            time_s: when.
            action: what is called.
            value: with what.
            phase: 0 = in turn with the messages of that instant; later phases wait until nothing of an earlier
                one is left to happen at that instant.
        """
        self._env.at(time_s, action, value, phase)

    def listen(self, handler: Callable[[Message], None], address: int | None = None) -> None:
        """Delivers messages for ``address`` (None: for everyone who does not listen himself) to ``handler``."""
        if address is None:
            self._default = handler
        else:
            self._agents[address] = handler

    def send(self, message: Message, arrives_s: float) -> None:
        """Delivers a message at simulated time ``arrives_s``; the link that carries it has worked out the delay."""
        if self._log is not None:
            self._log(message, self._env.now, arrives_s)
        self._env.at(arrives_s, self._deliver, message)

    def deliver_at(self, message: Message, arrives_s: float) -> None:
        """Delivers a message that was sent, and logged, before the run was interrupted."""
        self._env.at(arrives_s, self._deliver, message)

    def _deliver(self, message: Message) -> None:
        self._agents.get(message.to, self._default)(message)

    def mailbox(self, address: int) -> "Mailbox":
        """A queue of the messages for ``address``, to be waited on."""
        box = Mailbox(self._env)
        self.listen(box.deliver, address)
        return box

    def run(self, until: simpy.Process) -> Any:
        """Plays until the process ends and returns its value.

        Raises:
            StallError: nothing is scheduled any more, but the process has not ended.
        """
        try:
            return self._env.run(until)
        except RuntimeError as error:
            if "No scheduled events left" in str(error):
                why = "an agent waits for what cannot come"
                raise StallError(f"the simulation stalled at {self.now} s: {why}") from None
            raise


class Mailbox:
    """Messages for one agent, in order of arrival."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._messages: list[Message] = []
        self._waiting: simpy.Event | None = None
        self._count = 0
        self._urgent: str | None = None

    def deliver(self, message: Message) -> None:
        """Puts a message in; wakes the owner when it has what it waits for."""
        self._messages.append(message)
        if self._waiting is not None and (len(self._messages) >= self._count or message.kind == self._urgent):
            self._hand_over(self._waiting)

    def receive(self, count: int = 1, deadline_s: float | None = None, urgent: str | None = None) -> simpy.Event:
        """An event whose value is the list of messages, at least ``count`` of them.

        Args:
            count: messages to wait for, >= 1.
            deadline_s: seconds from now after which whatever has arrived is handed over.
            urgent: kind of message that is handed over at once, with all that came before it.
        """
        event = self._env.event()
        self._waiting, self._count, self._urgent = event, count, urgent
        if len(self._messages) >= count:
            self._hand_over(event)
        elif deadline_s is not None:
            simpy.Timeout(self._env, deadline_s).callbacks.append(lambda _: self._hand_over(event))
        return event

    def _hand_over(self, event: simpy.Event) -> None:
        if self._waiting is event:
            self._waiting = None
            messages, self._messages = self._messages, []
            event.succeed(messages)
