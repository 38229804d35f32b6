"""``simfl compare``"""

import sys
from pathlib import Path
from typing import Any

import click

from simfl.cli import completing
from simfl.cli.progress import say_how_to_watch
from simfl.cli.shared import latex_option, plugin_option, print_json, sort_option, values_by_key, write_asked_latex
from simfl.cli.sweep import (
    FAILED_MEMBERS,
    going_on,
    grid_options,
    how,
    read_request,
    report_failures,
    run_options,
    say_change,
    say_cost,
    submit_to_slurm,
)
from simfl.core.json_data import number_of

REPLICATIONS = 5
BUDGETS = ("rounds", "aggregations", "time", "updates", "bytes")
EVERY = "all"


class _Budget(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """What is spent, and how much of it: ``bytes``, ``bytes=5e8``."""

    name = "BUDGET"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str | None, dict[str, float]]:
        if isinstance(value, tuple):  # the default
            return value
        name, equals, amount = str(value).partition("=")
        if name not in ({*BUDGETS} if equals else {*BUDGETS, EVERY}):
            names = ", ".join(BUDGETS)
            self.fail(f"{value!r} is none of {names}, with or without =NUMBER, nor {EVERY}", parameter, context)
        number = number_of(amount, 0.0) if equals else None
        if number is not None and not 0 < number < float("inf"):
            self.fail(f"{value!r}: give a number above 0, e.g. {name}=600", parameter, context)
        return name, {} if number is None else {name: number}


@click.command("compare")
@click.argument("file", shell_complete=completing.scenarios)
@click.argument("grid", nargs=-1, metavar="[KEY=VALUE,VALUE,...]...", shell_complete=completing.overrides)
@click.option("--replications", type=click.IntRange(min=1),
              help="Runs of each configuration, with the seeds seed, seed + 1, ...; "
              f"default {REPLICATIONS}.")  # fmt: skip
@grid_options
@click.option("--baseline", metavar="CONFIGURATION", help="What the others are compared with; default: the first.")
@click.option(
    "--target-accuracy",
    type=click.FloatRange(0, 1),
    metavar="ACCURACY",
    help="For time, rounds and bytes to it; default: 95 % of the best of the baseline, mean over its runs.",
)
@click.option("--world", "worlds", multiple=True, metavar="KEY",
              help="A key of the world, which nobody chooses, though a server decides it.")  # fmt: skip
@click.option(
    "--choice", "choices", multiple=True, metavar="KEY", help="A key that is compared, though no server decides it."
)
@click.option("--at", type=_Budget(), default=(None, {}), metavar="BUDGET",
              help="Show all when they had spent as many rounds, aggregations, seconds (time), "
              "client updates or bytes as all others, or so many (bytes=5e8); all = each of these.")  # fmt: skip
@click.option("--columns", metavar="NAME,NAME,...", default="", help="What the tables show; all = every column. "
              "Default: accuracy, guarantee, measured recovery, time, traffic, clients in a sum.")  # fmt: skip
@click.option("--where", "where", multiple=True, metavar="KEY=VALUE", help="Show such configurations only.")
@sort_option
@click.option("--csv", "as_csv", is_flag=True, help="Print comparison.csv, or with --at equal.csv.")
@latex_option
@plugin_option
@run_options
@click.pass_context
def command(
    context: click.Context, /, file: str, grid: tuple[str, ...], plugins: tuple[Path, ...], replications: int | None,
    groups: tuple[str, ...], cases: tuple[str, ...], slurm: str | None, dry_run: bool, baseline: str | None,
    target_accuracy: float | None, worlds: tuple[str, ...], choices: tuple[str, ...],
    at: tuple[str | None, dict[str, float]], out: Path, as_json: bool, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Run a scenario in several configurations under the same conditions and say how sure the differences are.

    \b
    simfl compare FILE selection=random,weighted,batch_partition:T=4,mode=fair --baseline random

    Every configuration meets the same availability, latency and data draws, seed by seed. Keys that no server decides
    (devices, network, data, ...) make worlds, and everything is compared within its world. Tables are also written to
    OUT/NAME/compare-DIGEST/. FILE may be a sweep file. Exit code 3: some runs failed.
    """
    as_csv, sort = options.pop("as_csv"), options.pop("sort")
    columns, where = tuple(filter(None, options.pop("columns").split(","))), values_by_key(options.pop("where"))
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    from simfl.experiments.compare.comparison import compare, configurations, folder_of
    from simfl.experiments.compare.show import show
    from simfl.experiments.sweep.execution import shown
    from simfl.results.folder import ResultsFolder

    chosen, sweep_request = how(**options), read_request(file, grid, groups, cases, replications, plugins)
    compared = configurations(sweep_request.axes, worlds, choices)
    plan = _plan(sweep_request)
    _check_tables(plan, {each.label: each.values for each in compared}, columns, where, sort)
    conditions: tuple[Any, ...] = (worlds, choices, at[1])
    folder = folder_of(plan, out, baseline, target_accuracy, *conditions)
    if dry_run:
        return say_cost(plan, out, chosen, slurm, as_json)
    if slurm is not None and submit_to_slurm(plan, out, folder, chosen, slurm, as_json):
        return None
    say_how_to_watch(folder, quiet)
    with going_on(), shown(quiet) as watch:
        comparison = compare(plan, out, chosen, baseline, target_accuracy, watch, *conditions)
    report_failures(comparison.index, quiet)
    write_asked_latex(comparison.path, len(comparison.document["means"]))
    if as_csv:
        results = ResultsFolder.open_sweep(comparison.path)
        sys.stdout.write(results.read("equal.csv" if at[0] else "comparison.csv").decode())
    elif as_json:
        print_json({"path": str(comparison.path), **comparison.document})
    else:
        show(comparison.document, at=at[0], columns=columns, where=where, sort=sort)
        click.echo(comparison.path)
    context.exit(FAILED_MEMBERS if "failed" in map(comparison.index.status, (m.digest for m in plan.members)) else 0)


def _plan(sweep_request: Any) -> Any:
    """The runs, five seeds of each configuration unless others are asked for."""
    from simfl.experiments.sweep.plan import plan_sweep

    seeds = any(axis.key == "seed" and len(axis.values) > 1 for axis in sweep_request.axes)
    count = sweep_request.replications or (1 if seeds else REPLICATIONS)
    plan = plan_sweep(sweep_request.scenario, sweep_request.axes, count, sweep_request.plugins)
    say_change(sweep_request, plan)
    return plan


def _check_tables(
    plan: Any, values: dict[str, dict[str, str]], columns: tuple[str, ...], where: dict[str, str], sort: str | None
) -> None:
    """Refuses, before any run, what no table can show."""
    from simfl.core.column_files import columns_by_name
    from simfl.core.columns import DERIVED_COLUMNS, TARGET_COLUMNS
    from simfl.experiments.compare.table_choice import check_choice
    from simfl.scenario import Scenario
    from simfl.scenario.column_owners import plugin_columns

    wanted = [*(name for name in columns if columns != (EVERY,)), *([sort.removeprefix("-")] if sort else [])]
    known = dict.fromkeys([*columns_by_name(), *(column.name for column in (*TARGET_COLUMNS, *DERIVED_COLUMNS))])
    if any(name not in known for name in wanted):  # perhaps one of a plugin
        for text in {member.values: member.scenario for member in plan.members}.values():
            scenario = Scenario.parse(text, plan.name, folder=plan.folder)
            known |= dict.fromkeys(column.name for column in plugin_columns(scenario))
    check_choice(values, known, wanted, where)
