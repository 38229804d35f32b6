"""Say when whose update will become computable, and what other policies would change."""

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from timeit import timeit
from typing import TYPE_CHECKING, Any

import click

from simfl.deployment.cli.log_options import log_options
from simfl.plugins.commands import SimflError, as_json, print_json

if TYPE_CHECKING:
    from simfl.deployment.audit.log_columns import LogOptions
    from simfl.deployment.forecasting.forecast_result import Forecast
    from simfl.deployment.forecasting.futures import FuturePlan
    from simfl.deployment.forecasting.past import Past


TEXTS = ("policy", "client")
"""Columns of the tables whose words are the log's."""


@click.command("forecast")
@click.argument("participation")
@as_json
@click.option("--horizon", metavar="ROUNDS|DAYSd", help="Coming rounds, or days such as 30d; as many as the log has.")
@click.option("--futures", type=click.IntRange(min=2), default=200, show_default=True, help="Futures of each policy.")
@click.option("--against", metavar="POLICY", multiple=True,
              help="Another policy, e.g. batch_partition:T=4; may be given several times.")  # fmt: skip
@click.option("--from", "start", metavar="ROUND", type=click.IntRange(min=0), help="Round at which the others begin.")
@click.option("--policy", metavar="POLICY", help="The log's own policy, where it is not recognised.")
@click.option("--model", type=click.Choice(["constant", "per_client", "markov", "time_of_day", "groups", "mixed"]),
              help="Of availability, where not all parts together (mixed).")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides every draw.")
@click.option("--guarantees", type=click.IntRange(min=0), default=100, show_default=True,
              help="Futures for which the semi-strong and weak guarantees are computed, too.")  # fmt: skip
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True, help="How many work at once.")
@log_options
@click.option("-o", "--output", metavar="FOLDER", type=click.Path(path_type=Path),
              help="Write forecast.html and the tables there; an interrupted forecast continues from it.")  # fmt: skip
def command(
    participation: str,
    as_json: bool,
    horizon: str | None,
    futures: int,
    against: tuple[str, ...],
    start: int | None,
    policy: str | None,
    model: str | None,
    seed: int,
    guarantees: int,
    processes: int,
    log_options: "LogOptions",
    output: Path | None,
) -> None:
    """Say when whose update will become computable, and what other policies would change.

    PARTICIPATION is a log as for `simfl audit`, with a column of times if there is one. Availability and failures are
    inferred from it; many futures are simulated from its end, with its sums still there.
    """
    from simfl.deployment.forecasting.forecast_result import rounds_ahead
    from simfl.deployment.forecasting.forecast_text import text
    from simfl.deployment.forecasting.past import read_past

    past = read_past(participation, log_options)
    rounds = rounds_ahead(past, *horizon_of(horizon))
    settings = {"horizon": rounds, "futures": futures, "change_over": _change_over(start, past, rounds),
                "policy": policy, "model": model, "seed": seed, "guarantees": guarantees,
                "processes": processes}  # fmt: skip
    of = _simulate(past, against, settings, output)
    click.echo(past.how_read, err=True)
    if output is not None:
        path = Path(participation).resolve()
        _write(of, output, f"{path.parent.name}/{path.name}" if path.is_dir() else path.name)
    print_json(of.to_json()) if as_json else click.echo(text(of))


def _simulate(past: "Past", against: tuple[str, ...], settings: dict[str, Any], output: Path | None) -> "Forecast":
    """Simulates all futures, with a bar that says how much time is left."""
    from simfl.deployment.forecasting.forecast_result import forecast

    folder = parts_folder(output)
    futures = settings["futures"]
    length = futures * (1 + len(against))

    with ExitStack() as stack:

        def begin(plan: "FuturePlan") -> None:
            for policy in range(1, 1 + len(against)):
                _say_minutes(plan, policy, futures, settings["processes"])
            bars.append(stack.enter_context(click.progressbar(length=length, label="futures", file=sys.stderr)))

        def step(ready: int) -> None:
            bars[0].update(ready)

        bars: list[Any] = []
        return forecast(past, against, **settings, folder=folder, step=step, begin=begin)


def parts_folder(output: Path | None) -> Path | None:
    """The folder of finished parts in that of the output, made where it is missing.

    Raises:
        SimflError: the output is a file, or holds results of a run.
    """
    from simfl.api.files import make_folder

    if output is None:
        return None
    if output.exists() and not output.is_dir():
        raise SimflError(f"{output}: is a file; name a folder")
    if (output / "summary.json").exists():
        raise SimflError(f"{output}: holds results of a run; name another folder")
    make_folder(output / "parts", output)
    return output / "parts"


def _say_minutes(plan: "FuturePlan", policy: int, futures: int, processes: int) -> None:
    """Says how long a policy that answers for all sums will take, by one future, if that is more than half a minute."""
    from simfl.deployment.forecasting.parts import PartTask, simulate_part

    choice = plan.policies[policy]
    if not choice.policy().reads_history:
        return
    one_s = timeit(lambda: simulate_part(plan, PartTask(policy, 0, 1)), number=1)
    all_s = one_s * futures / min(processes, os.cpu_count() or 1, futures)
    if all_s >= 30:
        length = f"{all_s / 60:.0f} minutes" if all_s >= 90 else f"{all_s:.0f} s"
        click.echo(f"{choice.text}: a future takes {one_s:.1f} s, {futures} of them about {length}", err=True)


def _write(of: "Forecast", folder: Path, title: str) -> None:
    from simfl.api.files import without_formulas, write_atomically
    from simfl.deployment.forecasting.forecast_page import page

    tables = {"clients": of.clients(), "rounds": of.rounds(), "differences": of.differences()}
    for name, table in tables.items():
        safe = table.assign(**{key: table[key].map(without_formulas) for key in TEXTS if key in table})
        write_atomically(folder / f"{name}.csv", safe.to_csv(index=False, lineterminator="\n").encode())
    write_atomically(folder / "forecast.html", page(of, title).encode())
    click.echo(f"Page: {folder / 'forecast.html'}", err=True)


def horizon_of(text: str | None) -> tuple[int | None, float | None]:
    """Rounds, or days; refuses what is neither."""
    if text is None:
        return None, None
    form = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)d", text.strip())
    if form is None or float(form[1] or form[2]) <= 0 or float(form[1] or form[2]) > 10**6:
        raise SimflError(f"--horizon {text}: neither a number of rounds, e.g. 200, nor of days, e.g. 30d")
    return (int(form[1]), None) if form[1] else (None, float(form[2]))


def _change_over(start: int | None, past: "Past", horizon: int) -> int:
    """Coming rounds before the other policies select; refuses a round that is over, or beyond the horizon."""
    if start is None:
        return 0
    if not past.numbered:
        raise SimflError("--from: the log's rounds have no numbers; leave it out, and the others begin at once")
    ahead = start - int(past.label(0))
    if not 0 <= ahead < horizon:
        raise SimflError(f"--from {start}: must lie between {past.label(0)} and {past.label(horizon - 1)}")
    return ahead
