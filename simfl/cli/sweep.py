"""``simfl sweep``"""

import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from simfl.cli import completing
from simfl.cli.progress import say_how_to_watch
from simfl.cli.shared import (
    LATEX,
    as_json,
    latex_option,
    log_option,
    note_options,
    out_option,
    plugin_option,
    print_json,
    write_asked_latex,
)
from simfl.core.errors import SimflError, amount, printable
from simfl.experiments.shard import Shard

FAILED_MEMBERS = 3
SHOWN_FAILURES = 10


class _Shard(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    name = "I/N"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value

        try:
            return Shard.parse(str(value))
        except ArgumentTypeError as error:
            self.fail(str(error), parameter, context)


def run_options(command: Any) -> Any:
    """The options that say how runs are executed; none of them changes a result."""
    options = (
        out_option,
        click.option("--jobs", type=click.IntRange(min=1), help="Runs at the same time; default: one for each core."),
        click.option("--retry-failed", is_flag=True, help="Run those again that failed before."),
        click.option("--time-limit-s", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
                     help="Give a run up that takes longer, by the wall clock."),
        click.option("--engine", type=click.Choice(["processes", "dask"]), default="processes", show_default=True,
                     help="Where runs are executed."),
        click.option("--scheduler", metavar="ADDRESS", help="Of a Dask scheduler; default: one in this process."),
        click.option("--insecure", is_flag=True, help="Accept a scheduler on another machine without TLS."),
        note_options,
        log_option,
        as_json,
        click.option("-q", "--quiet", is_flag=True, help="No progress and no messages about single runs."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def grid_options(command: Any) -> Any:
    """The options that say what varies, besides the keys, and which of these runs are executed where."""
    zipped = click.option("--zip", "groups", multiple=True, metavar="KEY,KEY",
                          help="Keys that move together: the first value of each, then the second, ...")  # fmt: skip
    cases = click.option("--case", "cases", multiple=True, metavar="'NAME: KEY=VALUE ...'",
                         help="A named case with its overrides; several make an axis of their own.")  # fmt: skip
    shard = click.option(
        "--shard", type=_Shard(), default=(1, 1), help="Only every N-th run from the I-th on, e.g. 3/16."
    )
    slurm = click.option("--slurm", metavar="OPTIONS", help="Submit the runs that are left as a job array, with these "
                         "options of sbatch, e.g. '--partition=cpu --time=4:00:00'; --jobs is then the number of its "
                         "tasks.")  # fmt: skip
    dry = click.option("--dry-run", is_flag=True, help="Say how many runs there are, and what they may take, by one "
                       "short run; run nothing else.")  # fmt: skip
    return zipped(cases(shard(slurm(dry(command)))))


def read_request(
    file: str,
    grid: tuple[str, ...],
    groups: tuple[str, ...],
    cases: tuple[str, ...],
    replications: int | None,
    plugins: tuple[Path, ...],
) -> Any:
    """The :class:`simfl.experiments.sweep.sweep_file.SweepRequest` of a command line."""
    from simfl.experiments.sweep.grid import cases_of_texts, parse
    from simfl.experiments.sweep.sweep_file import request

    together = [[key.strip() for key in keys.split(",") if key.strip()] for keys in groups]
    return request(file, parse(grid), together, cases_of_texts(cases), replications, plugins)


def say_change(sweep_request: Any, plan: Any) -> None:
    """Says on stderr that a sweep file was written by another sweep."""
    if note := sweep_request.change_note(plan):
        click.echo(f"note: {note}", err=True)


def how(**options: Any) -> Any:
    """The options as a value."""
    from simfl.experiments.sweep.execution import How

    return How(**{name: value for name, value in options.items() if value is not None})


@contextmanager
def going_on() -> Iterator[None]:
    """After Ctrl-C, says how to go on: with the very same command."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"to continue: {shlex.join(['simfl', *sys.argv[1:]])}", err=True)
        raise


def report_failures(index: Any, quiet: bool) -> None:
    """Says on stderr which members failed and why."""
    failed = [member for member in index.plan.members if index.status(member.digest) == "failed"]
    for member in failed[: 0 if quiet else SHOWN_FAILURES]:
        click.echo(printable(f"failed: {index.plan.label(member)}: {index.error(member.digest)}"), err=True)
    if len(failed) > SHOWN_FAILURES and not quiet:
        click.echo(f"... and {len(failed) - SHOWN_FAILURES} more", err=True)
    if failed and not quiet:
        click.echo("--retry-failed runs them again", err=True)


@click.command("sweep")
@click.argument("file", shell_complete=completing.scenarios)
@click.argument("grid", nargs=-1, metavar="[KEY=VALUE,VALUE,...]...", shell_complete=completing.overrides)
@click.option("--replications", type=click.IntRange(min=1),
              help="Runs of each combination, with the seeds seed, seed + 1, ...; default: 1.")  # fmt: skip
@grid_options
@latex_option
@plugin_option
@run_options
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str,
    grid: tuple[str, ...],
    plugins: tuple[Path, ...],
    replications: int | None,
    groups: tuple[str, ...],
    cases: tuple[str, ...],
    slurm: str | None,
    dry_run: bool,
    out: Path,
    as_json: bool,
    quiet: bool,
    **options: object,
) -> None:
    """Run a scenario for every combination of values and write one table of all runs.

    \b
    simfl sweep FILE selection=random,batch_partition:T=3,mode=fair selection.k=6,12 --replications 5

    Commas separate values; field=value behind a plugin is another field of it. 0:0.5:0.1 and log:0.001:1:4 are ranges.
    FILE is a scenario or a sweep file, such as the OUT/NAME/sweep-DIGEST/sweep.yaml that every sweep writes. Everything
    is checked before the first run. Runs that are complete are kept, interrupted ones go on where they stopped: to
    resume, repeat the command. The table is OUT/NAME/sweep-DIGEST/index.csv. Exit code 3: some runs failed.
    """
    from simfl.experiments.sweep.execution import execute, shown
    from simfl.experiments.sweep.plan import plan_sweep

    chosen = how(**options)
    sweep_request = read_request(file, grid, groups, cases, replications, plugins)
    plan = plan_sweep(
        sweep_request.scenario, sweep_request.axes, sweep_request.replications or 1, sweep_request.plugins
    )
    say_change(sweep_request, plan)
    folder = out / plan.name / f"sweep-{plan.digest}"
    if dry_run:
        return say_cost(plan, out, chosen, slurm, as_json)
    say_how_to_watch(folder, quiet)
    if slurm is not None and submit_to_slurm(plan, out, folder, chosen, slurm, as_json):
        return
    with going_on(), shown(quiet) as watch:
        index = execute(plan, out, folder, chosen, watch)
    report_failures(index, quiet)
    _print_index(index, folder, as_json, quiet)
    write_asked_latex(folder, index.counts(member.digest for member in plan.members)["done"])
    failed = index.counts(member.digest for member in chosen.members(plan))["failed"]
    context.exit(FAILED_MEMBERS if failed else 0)


def say_cost(plan: Any, out: Path, chosen: Any, slurm: str | None, as_json: bool) -> None:
    """Says how many runs of a shard are left and, by a short run of the first of them, how long they may take."""
    from simfl.cli.dry_run import cost

    if slurm is not None:
        raise click.UsageError("--dry-run submits nothing; leave --slurm out, or ask for a part by --shard I/N")
    if click.get_current_context().meta[LATEX] is not None:
        raise click.UsageError("--dry-run has no numbers for --latex; leave one of the two out")
    expected = cost(plan, chosen.members(plan), out)
    if as_json:
        print_json(asdict(expected))
    else:
        click.echo(expected.text)


def submit_to_slurm(plan: Any, out: Path, folder: Path, chosen: Any, options: str, as_json: bool) -> bool:
    """Whether an array of Slurm is at work; else every run is complete."""
    if click.get_current_context().meta[LATEX] is not None:
        raise SimflError("--latex: the runs of --slurm end later; repeat the command without --slurm when they have")
    from simfl.experiments.sweep.slurm import submit

    array = submit(plan, out, folder, chosen, options)
    if array is None:
        return False
    if array.runs is None:
        click.echo(f"array {array.job} is still at work: {amount(array.tasks, 'task')} queued or running", err=True)
    else:
        click.echo(
            f"submitted array {array.job}: {amount(array.tasks, 'task')} for {amount(array.runs, 'run')}", err=True
        )
    if as_json:
        print_json({"path": str(folder), "digest": plan.digest, **asdict(array)})
    else:
        click.echo(array.job)
    return True


def _print_index(index: Any, folder: Path, as_json: bool, quiet: bool) -> None:
    plan = index.plan
    counts = index.counts(member.digest for member in plan.members)
    if as_json:
        columns, rows = index.table()
        runs = [{column: row.get(column) for column in columns} for row in rows]
        print_json({"path": str(folder), "digest": index.plan.digest, "done": counts["done"],
                    "failed": counts["failed"], "open": counts["open"], "runs": runs})  # fmt: skip
    else:
        if not quiet:
            click.echo(", ".join(f"{counts[status]} {status}" for status in ("done", "failed", "open")), err=True)
        click.echo(folder / "index.csv")
