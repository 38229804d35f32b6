"""How a run gets on, on stderr, where somebody sees it: what it does, how far it is, how long that takes still."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from simfl.runs.simulation import Phase, Progress

PHASES = {
    "building": "building network, devices and data",
    "running": "first round",
    "finishing": "working out what the sums gave away",
}
"""What a run does while nobody knows how far it is, in words."""


def say_how_to_watch(folder: Path, quiet: bool) -> None:
    """Names the command that shows on a page how a run, a sweep or a comparison gets on, where somebody looks."""
    if not quiet and sys.stderr.isatty():
        click.echo(f"to watch it: simfl watch {shlex.quote(str(folder))}", err=True)


@contextmanager
def shown(quiet: bool = False, console: "Console | None" = None) -> Iterator[tuple["Progress | None", "Phase | None"]]:
    """A line that says how far a run is: what to call after each round and when a phase begins; None for nobody.

    Args:
        quiet: nothing is wanted.
        console: where it is shown; default: stderr, if that is a terminal.
    """
    if console is None and (quiet or not sys.stderr.isatty()):
        yield None, None
        return
    from rich import progress as rich
    from rich.console import Console

    class Time(rich.ProgressColumn):
        """The time left where that can be told, else the time that the phase has taken."""

        def render(self, task: rich.Task) -> str:
            if task.total is None:
                return f"{_clock(task.elapsed or 0)} so far"
            return "" if task.time_remaining is None else f"{_clock(task.time_remaining)} left"

    text = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TextColumn("{task.fields[simulated]}")
    with rich.Progress(*text, Time(), console=console or Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(PHASES["building"], total=None, simulated="")

        def round_done(done: int, rounds: int, time_s: float) -> None:
            of = f" of {rounds}" if rounds else ""
            status = f"{time_s:.6g} simulated s"
            bars.update(bar, completed=done, total=rounds or None, description=f"round {done}{of}", simulated=status)

        def begins(phase: str, done: int) -> None:
            nonlocal bar
            bars.remove_task(bar)  # a task keeps the total that it once had
            bar = bars.add_task(PHASES[phase], total=None, completed=done, simulated="")

        yield round_done, begins


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
