"""``simfl compare``"""

import sys
from pathlib import Path
from typing import Any

import click

from simfl.cli import completing
from simfl.cli.progress import say_how_to_watch
from simfl.cli.shared import plugin_option, print_json
from simfl.cli.sweep import FAILED_MEMBERS, going_on, how, playing_options, report_failures

__all__ = ["command"]

REPLICATIONS = 5
BUDGETS = ("rounds", "time", "updates", "bytes")


@click.command("compare")
@click.argument("file", shell_complete=completing.scenarios)
@click.argument("grid", nargs=-1, required=True, metavar="KEY=VALUE,VALUE,...", shell_complete=completing.overrides)
@click.option("--replications", type=click.IntRange(min=1),
              help=f"Runs of each choice, with the seeds seed, seed + 1, ...; default {REPLICATIONS}.")  # fmt: skip
@click.option("--baseline", metavar="CHOICE", help="What the others are compared with; default: the first.")
@click.option(
    "--target-accuracy",
    type=click.FloatRange(0, 1),
    metavar="ACCURACY",
    help="For time, rounds and bytes to it; default: the highest whole per cent reached by every run that learned.",
)
@click.option("--at", type=click.Choice([*BUDGETS, "all"]),
              help="Show all when they had spent as many rounds, seconds, client updates or bytes as all others, "
              "instead of at their ends; all = all four.")  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print comparison.csv, or with --at equal.csv.")
@plugin_option
@playing_options
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str,
    grid: tuple[str, ...],
    plugins: tuple[Path, ...],
    replications: int | None,
    baseline: str | None,
    target_accuracy: float | None,
    at: str | None,
    as_csv: bool,
    out: Path,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Play a scenario with several choices under the same conditions and say how sure the differences are.

    \b
    simfl compare FILE selection=random,weighted,batch_partition:T=4 --baseline random

    Every choice meets the same availability, latency and data draws, seed by seed. Tables are also written to
    OUT/NAME/compare-DIGEST/. Commas separate choices, semicolons the fields of one. Exit code 3: some runs failed.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    from simfl.compare.comparison import choices, compare, folder_of
    from simfl.stored import Stored
    from simfl.sweep.grid import axes
    from simfl.sweep.plan import planned
    from simfl.sweep.progress import shown

    chosen, keys = how(**options), axes(grid)
    choices(keys)
    if replications is None:
        replications = 1 if any(axis.key == "seed" and len(axis.values) > 1 for axis in keys) else REPLICATIONS
    plan = planned(file, keys, replications, plugins)
    say_how_to_watch(folder_of(plan, out, baseline, target_accuracy), quiet)
    with going_on(), shown(quiet) as watch:
        made = compare(plan, out, chosen, baseline, target_accuracy, watch)
    report_failures(made.index, quiet)
    if as_json:
        print_json({"path": str(made.path), **made.document})
    elif as_csv:
        sys.stdout.write(Stored.swept(made.path).read("equal.csv" if at else "comparison.csv").decode())
    else:
        from simfl.compare.show import show

        show(made.document, at=at)
        click.echo(made.path)
    context.exit(FAILED_MEMBERS if "failed" in map(made.index.status, (m.digest for m in plan.members)) else 0)
