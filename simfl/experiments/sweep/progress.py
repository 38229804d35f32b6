"""How far many runs have come, on stderr, where somebody sees it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from simfl.experiments.sweep.execution import Counts, Watch


@contextmanager
def shown(quiet: bool = False) -> Iterator[Watch | None]:
    """A line that says how many runs are done, running, failed and left, and for how long; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    words = [TextColumn(f"{{task.fields[{name}]}} {name}") for name in ("done", "running", "failed", "left")]
    columns = (*words, BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None, done=0, running=0, failed=0, left=0)

        def watch(now: Counts) -> None:
            # what was complete before is no part of the bar, or the time left would be far too short
            bars.update(bar, total=now.total - now.reused, completed=now.done + now.failed - now.reused,
                        done=now.done, running=now.running, failed=now.failed, left=now.left)  # fmt: skip

        yield watch
