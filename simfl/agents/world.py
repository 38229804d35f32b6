"""The clock: agents wait, and are called when something reaches them; nothing else moves simulated time.

The only module that knows SimPy, through its public interface. Events at equal times happen in the order in which they
were scheduled, those of a later phase after all others.
"""

import gc
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import simpy
from simpy.events import NORMAL

from simfl.core.errors import SimflError

DOWN_ENDS, UP_BEGINS, UP_ENDS, ARRIVALS, PHASE_ENDS, SESSION_ENDS, DEADLINES, REFILL = range(1, 9)
"""Phases of an instant. First agents go on; then shared links down end what ends on them, answers enter the links up,
and these end what ends on them; what arrives is told; then end phases of protocols, whole sessions, and the time that
answers have; new work is given out last."""

RARELY = 200_000
"""Objects between two searches for cyclic garbage: what agents leave behind is freed without one, and looking through
many thousand jobs under way every 700 objects takes a third of a run's time."""

T = TypeVar("T")
Process = Generator[simpy.Event, Any, T]
"""An agent's process: it yields the events that a :class:`World` makes, and ends with a value."""


class StallError(SimflError):
    """Nothing is left to happen, but the run's end was not reached (exit 1: a bug in an agent)."""

    exit_code = 1


class _At(float):
    """A simulated time as the delay of SimPy's ``schedule``, which adds it to the present: ``now + (t - now)`` need not
    be ``t`` in floating point."""

    __slots__ = ()

    def __radd__(self, now: float) -> float:
        return +self


def _make(call: Any) -> None:
    call.action(call.argument)


class _Call(simpy.Event):
    """An event that is nothing but a call to make; a third of another event in time and memory."""

    _ok = True
    callbacks = [_make]  # SimPy reads an event's callbacks when it happens, and changes none

    def __init__(self, action: Callable[[Any], Any], argument: object) -> None:
        self.action, self.argument = action, argument


class _Moment(simpy.Event):
    """An event at a time."""

    _ok = True

    def __init__(self, env: simpy.Environment, value: object) -> None:
        self.env, self.callbacks, self._value = env, [], value


class _Past(simpy.Event):
    """An event that has happened: who waits for it goes on at once."""

    _ok = True
    callbacks: Any = None

    def __init__(self, value: object) -> None:
        self._value = value


SERIAL = 2.0**-44
"""What a serial number adds to a phase: the first 10^13 of a phase come before the next, and are exact."""


def _until_stopped(process: Process[T]) -> Process[T | None]:
    try:
        return (yield from process)
    except simpy.Interrupt:
        return None


class World:
    """Simulated time and agent processes.

    Times are absolute: a resumed run must meet every pending event at exactly the time an undisturbed run does.

    Args:
        start_s: simulated time at which the world starts, seconds (not 0 after a resume).

    Attributes:
        on_stall: called when nothing is left to happen; it may raise what says why.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._env = simpy.Environment(initial_time=start_s)
        self.on_stall: Callable[[], None] = lambda: None

    @property
    def now(self) -> float:
        """Simulated time, seconds."""
        return self._env.now

    def spawn(self, process: Process[Any]) -> simpy.Process:
        """Starts an agent's process."""
        return simpy.Process(self._env, _until_stopped(process))

    def event(self) -> simpy.Event:
        """An event to wait for that an agent makes happen with ``succeed(value)``."""
        return self._env.event()

    @staticmethod
    def past(value: object) -> simpy.Event:
        """An event that has happened, with this value."""
        return _Past(value)

    def until(self, time_s: float, value: object = None, serial: int = 0) -> simpy.Event:
        """An event at simulated time ``time_s``, not before now; ``serial`` orders those of an instant."""
        event = _Moment(self._env, value)
        self._env.schedule(event, NORMAL + serial * SERIAL, _At(time_s))  # type: ignore[arg-type]
        return event

    def stop(self, process: simpy.Process) -> None:
        """Ends a process, unless it has ended."""
        if process.is_alive:
            process.interrupt()

    def wait(self, seconds: float) -> simpy.Event:
        """An event ``seconds`` from now."""
        return simpy.Timeout(self._env, seconds)

    def at(
        self, time_s: float, action: Callable[[Any], Any], value: object = None, phase: float = 0, serial: int = 0
    ) -> None:
        """Calls ``action(value)`` at simulated time ``time_s``, not before now.

        Args:
            time_s: when.
            action: what is called.
            value: with what.
            phase: 0 = in the order of the calls for that instant; later phases wait until nothing of an earlier
                one is left to happen at that instant.
            serial: orders the calls of a phase; those of one serial number come in the order of the calls.
        """
        self._env.schedule(_Call(action, value), NORMAL + phase + serial * SERIAL, _At(time_s))  # type: ignore[arg-type]

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen at this instant, as far as is known."""
        return self._env.peek() > self._env.now

    def run(self, until: simpy.Process) -> Any:
        """Runs until the process ends and returns its value.

        Raises:
            StallError: nothing is scheduled any more, but the process has not ended.
        """
        thresholds = gc.get_threshold()
        gc.set_threshold(RARELY, *thresholds[1:])
        try:
            return self._env.run(until)
        except RuntimeError as error:
            if "No scheduled events left" in str(error):
                self.on_stall()
                why = "an agent waits for what cannot come"
                raise StallError(f"the simulation stalled at {self.now} s: {why}") from None
            raise
        finally:
            gc.set_threshold(*thresholds)
