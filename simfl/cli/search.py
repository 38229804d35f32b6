"""``simfl search``"""

from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simfl.cli import completing
from simfl.cli.progress import say_how_to_watch
from simfl.cli.shared import plugin_option, print_json
from simfl.cli.sweep import FAILED_MEMBERS, going_on, how, run_options

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.experiments.search.preparation import Search
    from simfl.experiments.search.run_search import FinishedSearch

RUNS, BATCH = 40, 4
GUARANTEES = {
    "privacy_strong": "guarantee_strong",
    "privacy_semi_strong": "guarantee_semi_strong",
    "privacy_weak_lower": "guarantee_weak",
}
"""What the rounds of a run have left, and what theory gives for any number of rounds."""
SHOWN = 10
"""Rows of the table in the terminal."""


@click.command("search")
@click.argument("file", shell_complete=completing.scenarios)
@click.argument("space", nargs=-1, required=True, metavar="KEY=FIRST..LAST...", shell_complete=completing.overrides)
@click.option("--maximise", "--maximize", multiple=True, metavar="NAME", help="A final value of a run, to be large.")
@click.option("--minimise", "--minimize", multiple=True, metavar="NAME", help="A final value of a run, to be small.")
@click.option("--require", multiple=True, metavar="NAME>=NUMBER", help="Only runs that keep this bound are feasible.")
@click.option("--runs", type=click.IntRange(min=1), default=RUNS, show_default=True, help="At most so many runs.")
@click.option("--batch", type=click.IntRange(min=1), default=BATCH, show_default=True,
              help="Runs that are proposed together; --jobs changes no proposal.")  # fmt: skip
@click.option("--prune", type=click.Choice(["rounds", "time"]),
              help="Stop runs early that are worse than the median of earlier ones after as many rounds, or at the "
              "same simulated time.")  # fmt: skip
@click.option("--own-seeds", is_flag=True, help="Each run has a seed of its own, so that epsilons of all runs compose.")
@plugin_option
@run_options
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str,
    space: tuple[str, ...],
    maximise: tuple[str, ...],
    minimise: tuple[str, ...],
    require: tuple[str, ...],
    runs: int,
    batch: int,
    prune: str | None,
    own_seeds: bool,
    plugins: tuple[Path, ...],
    out: Path,
    as_json: bool,
    quiet: bool,
    **options: object,
) -> None:
    """Search for the best values of keys, with Optuna (extra "search").

    \b
    simfl search FILE training.learning_rate=log:0.01..1 selection.k=4..20 selection=random,partition
        --maximise test_accuracy --require "privacy_weak>=4" --runs 40

    first..last is a range, log:first..last one of logarithms, first..last:step has steps; several values are
    categories, one is fixed. Several objectives give a Pareto front. The same command gives the same runs, for any
    number of jobs; to resume, repeat it. The table of all runs is OUT/NAME/search-DIGEST/search.csv. Exit code 3: some
    runs failed.
    """
    from simfl.experiments.search.preparation import prepare
    from simfl.experiments.search.run_search import folder_of, search
    from simfl.experiments.sweep.execution import shown

    chosen = how(**options)
    definition = prepare(file, space, maximise, minimise, require, runs, batch, prune, plugins, own_seeds)  # type: ignore[arg-type]
    say_how_to_watch(folder_of(definition, out), quiet)
    with going_on(), shown(quiet) as watch:
        finished = search(definition, out, chosen, watch)
    if as_json:
        _print_json(definition, finished)
    else:
        _print(definition, finished, quiet)
    context.exit(FAILED_MEMBERS if any(trial.state == "failed" for trial in finished.trials) else 0)


def _print_json(definition: "Search", finished: "FinishedSearch") -> None:
    from simfl.core.certificate_words import basis_facts
    from simfl.experiments.search.objectives import trial_columns, trial_rows

    columns = trial_columns(definition.space, definition.goal)
    rows = [
        dict(zip(columns, row, strict=True)) for row in trial_rows(definition.space, definition.goal, finished.trials)
    ]
    print_json(
        {
            "path": str(finished.path),
            "digest": definition.digest,
            "exhausted": finished.exhausted,
            "runs": rows,
            "all_runs_together": finished.together and finished.together.facts,
            "certificates": {column.name: basis_facts(column) for column in _certificates(definition, finished)},
        }
    )


def _certificates(definition: "Search", finished: "FinishedSearch") -> "list[Column]":
    """The certificates among the numbers that a search is for, and of all its runs together."""
    from simfl.experiments.search.all_runs import Together
    from simfl.results.folder import columns_of_runs

    every = finished.together or Together(0)
    composed = {column.name: column for column in every.columns}
    columns = composed | columns_of_runs(finished.path.parent / trial.digest for trial in finished.trials)
    names = dict.fromkeys((*definition.goal.names, *composed, *every.hidden))
    return [columns[name] for name in names if name in columns and columns[name].observer]


def _print(definition: "Search", finished: "FinishedSearch", quiet: bool) -> None:
    from simfl.core.certificate_words import OF_ONE_RUN, basis_lines
    from simfl.experiments.search.objectives import table_text
    from simfl.experiments.search.run_search import choice_line, summary_line

    if not quiet:
        for line in table_text(definition.space, definition.goal, finished.trials, SHOWN):
            click.echo(line)
        lines = basis_lines(_certificates(definition, finished), attrgetter("name"))
        for line in [*lines, OF_ONE_RUN] if lines else []:
            click.echo(line)
        if finished.exhausted:
            click.echo(f"all {definition.space.size} combinations were tried", err=True)
        for trial in (trial for trial in finished.trials if trial.state == "failed"):
            click.echo(f"failed: number {trial.number}: {trial.note}", err=True)
        for requirement in definition.goal.requirements:
            if requirement.name in GUARANTEES:
                proven = replace(requirement, name=GUARANTEES[requirement.name])
                click.echo(f"note: {requirement} holds for the rounds of a run; for any number of rounds require "
                           f"{proven}", err=True)  # fmt: skip
    if finished.together is not None:
        click.echo(finished.together)
    if sum(trial.state == "done" for trial in finished.trials) > 1:
        click.echo(choice_line(definition, finished.trials))
    click.echo(summary_line(definition, finished.trials))
    click.echo(finished.path / "search.csv")
