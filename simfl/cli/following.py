"""``simfl audit --follow``: a log is audited again whenever it has grown."""

import os
import subprocess
from pathlib import Path
from threading import Event

import click

from simfl.core.errors import SimflError

LIKELY = 0.5
"""Share of the next rounds that break a guarantee from which on the warning comes."""
WARNING = 3
"""Exit code."""


def follow(
    participation: str, columns: dict[str, str] | None, texts: tuple[str, ...], action: str | None, interval_s: float
) -> None:
    """Audits a log whenever it has changed, until a guarantee is, or will probably be, below its bound.

    Raises:
        SimflError: no bound is named, or the log cannot be read.
        click.exceptions.Exit: with 3, once it is.
    """
    from simfl.forecasting.least_guarantees import least_values
    from simfl.forecasting.next_round import outlook
    from simfl.forecasting.past import read_past

    if not (bounds := least_values(texts)):
        raise SimflError("--follow: name the least guarantee that is to hold, e.g. --floor semi_strong=3")
    file, seen = Path(participation), (0, 0)
    while True:
        stat = file.stat() if file.exists() else None
        if stat is None:
            raise SimflError(f"{participation}: there is no such file")
        if (stat.st_mtime_ns, stat.st_size) != seen:
            seen = stat.st_mtime_ns, stat.st_size
            past = read_past(file, columns)
            view = outlook(past, bounds)
            values = ", ".join(f"{name} {_number(view.now[name])}" for name in bounds)
            click.echo(f"{len(past.rows)} rounds, {len(past.clients)} clients: {values}; one more round breaks it with "
                       f"probability {max(view.below.values()):.2f}")  # fmt: skip
            if max(view.below.values()) >= LIKELY:
                _warn(str(past.label(0)), view.below, bounds, action)
        Event().wait(interval_s)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _warn(round_label: str, below: dict[str, float], bounds: dict[str, float], action: str | None) -> None:
    name = max(bounds, key=lambda each: below[each])
    click.echo(
        f"warning: stop before round {round_label}: {name} is or will probably be below {bounds[name]:g}", err=True
    )
    if action is not None:
        subprocess.run(action, shell=True, check=False, env=os.environ | {"SIMFL_ROUND": round_label})  # noqa: S602
    raise click.exceptions.Exit(WARNING)
