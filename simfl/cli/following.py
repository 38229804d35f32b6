"""``simfl audit --follow``: a log is audited again whenever it has grown."""

import os
import subprocess
from itertools import islice
from pathlib import Path
from threading import Event

import click
from click.core import ParameterSource

from simfl.core.certificate_words import OF_A_LOG
from simfl.core.errors import SimflError, amount

LIKELY = 0.5
"""Share of the next rounds that break a guarantee from which on the warning comes."""
WARNING = 3
"""Exit code."""
OURS = ("least", "action", "interval_s")
"""Parameters of the command that are for ``--follow``."""
COMMON = ("follow", "participation", "columns")


def check_options(follow: bool) -> None:
    """
    Raises:
        SimflError: the command line has an option that would not be used.
    """
    context = click.get_current_context()
    for option in context.command.params:
        is_typed = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        unused = option.name not in (*OURS, *COMMON) if follow else option.name in OURS
        if is_typed and unused:
            raise SimflError(f"{option.opts[0]}: {'leave it out with' if follow else 'is for'} --follow")


def follow(
    participation: str, columns: dict[str, str] | None, texts: tuple[str, ...], action: str | None, interval_s: float
) -> None:
    """Audits a log whenever it has changed, until a guarantee is, or will probably be, below its bound.

    Raises:
        SimflError: no bound is named, or the log cannot be read.
        click.exceptions.Exit: with 3, once it is.
    """
    from simfl.forecasting.next_round import least_values, outlook
    from simfl.forecasting.past import read_past

    if not (bounds := least_values(texts)):
        raise SimflError("--follow: name the least guarantee that is to hold, e.g. --floor semi_strong=3")
    click.echo(f"{OF_A_LOG}:")
    file = Path(participation)
    seen = before = (0, 0)
    while True:
        if not file.is_file():
            what = "is a folder; name the file that grows" if file.is_dir() else "there is no such file"
            raise SimflError(f"{participation}: {what}")
        stat = file.stat()
        now = stat.st_mtime_ns, stat.st_size
        if now != seen and (now == before or _ends_with_line(file)) and _has_entries(file):
            seen = now
            past = read_past(file, columns, least=1)
            view = outlook(past, bounds)
            values = ", ".join(f"{name} {_number(view.now[name])}" for name in bounds)
            next_one = view.unsaid if view.below is None else _next(max(view.below.values()))
            size = f"{amount(len(past.rows), 'round')}, {amount(len(past.clients), 'client')}"
            click.echo(f"{size}: {values}; {next_one}")
            if view.below is not None and max(view.below.values()) >= LIKELY:
                _warn(str(past.label(0)), view.below, bounds, action)
        before = now
        Event().wait(interval_s)


def _ends_with_line(file: Path) -> bool:
    """Whether a file's last line is complete; if not, somebody may be writing it."""
    with open(file, "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 1))
        return log.read(1) == b"\n"


def _has_entries(file: Path) -> bool:
    """Whether there is more than nothing, or than a heading."""
    heading = file.suffix.lower() not in (".jsonl", ".ndjson", ".json", ".npy", ".npz", ".parquet", ".pq")
    with open(file, "rb") as log:
        return any(line.strip() for line in islice(log, int(heading), None))


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _next(share: float) -> str:
    """How likely the next round breaks a bound, by the share of the drawn ones that do."""
    from simfl.forecasting.next_round import DRAWS

    likely = f"{share:.2f}" if share else f"below {1 - 0.05 ** (1 / DRAWS):.2f}: none of {DRAWS} drawn ones does"
    return f"one more round breaks it with probability {likely}"


def _warn(round_label: str, below: dict[str, float], bounds: dict[str, float], action: str | None) -> None:
    name = max(bounds, key=lambda each: below[each])
    click.echo(
        f"warning: stop before round {round_label}: {name} is or will probably be below {bounds[name]:g}", err=True
    )
    if action is not None:
        subprocess.run(action, shell=True, check=False, env=os.environ | {"SIMFL_ROUND": round_label})  # noqa: S602
    raise click.exceptions.Exit(WARNING)
