"""``simfl run``"""

import csv
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simfl.cli.progress import say_how_to_watch, shown
from simfl.cli.shared import (
    as_json,
    load,
    log_option,
    note_options,
    out_option,
    print_json,
    scenario_arguments,
    trusting_plugins,
    writable,
)
from simfl.core.errors import ScenarioError, SimflError
from simfl.core.json_data import JsonObject

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.results.folder import ResultsFolder
    from simfl.runs.run import FinishedRun
    from simfl.scenario import Scenario

HEADLINES = (
    ("time_s",), ("test_accuracy", "test_loss"), ("mean_cardinality",), ("fairness_gap",), ("privacy_weak_lower",),
    ("epsilon_max", "bytes_up"),
)  # fmt: skip
"""What is printed after a run, unasked: of each group, the first that the run has."""


@click.command("run", short_help="Run a scenario and write its results.")
@scenario_arguments
@out_option
@click.option("--resume", is_flag=True, hidden=True, expose_value=False, help="What is done anyway; for older scripts.")
@click.option("--force", is_flag=True, help="Run from the start, whatever there is already.")
@click.option("--timeline", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Also write what every agent did when, for ui.perfetto.dev or chrome://tracing.")  # fmt: skip
@note_options
@log_option
@click.option("--scheduler", metavar="ADDRESS", help="Of a Dask scheduler, for learning.backend: dask.")
@click.option("--insecure", is_flag=True, help="Accept a scheduler on another machine without TLS.")
@trusting_plugins
@as_json
@click.option("-v", "--verbose", is_flag=True, help="Print every number of the summary, and what certificates assume.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the results folder.")
def command(
    file: str,
    overrides: tuple[str, ...],
    plugins: tuple[Path, ...],
    out: Path,
    force: bool,
    timeline: Path | None,
    run_name: str,
    tags: tuple[str, ...],
    note: str,
    log: tuple[str, ...],
    scheduler: str | None,
    insecure: bool,
    trust_plugins: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run a scenario and write its results to OUT/NAME/DIGEST/.

    A run that was interrupted goes on from its last checkpoint (with buffers of edges or their cloud, it has none and
    begins anew); complete results are kept as they are. If FILE is the folder of a complete run, the same run is made
    longer: results/quickstart/87b4d6358c0c training.rounds=200

    Overrides change single keys: training.rounds=50 seed=3 selection=batch_partition:T=3

    `simfl run --verify FOLDER` repeats a finished run instead, elsewhere, and compares.
    """
    from simfl.results.file_names import is_finished
    from simfl.results.notes import Notes

    _check_timeline(timeline)
    notes, goes_on = Notes(run_name, tags, note), Path(file) if is_finished(Path(file)) else None
    scenario = _with_means(load(_scenario_of(file, trust_plugins), overrides, plugins), scheduler, insecure)
    if not is_finished(folder := out / scenario.name / scenario.digest) or force:
        say_how_to_watch(folder, quiet)
        _print_notes(file, () if quiet or as_json else scenario.cautions())
    try:
        with shown(quiet) as (progress, phase):
            from simfl.runs.tracking.tracked_run import run_tracked

            finished = run_tracked(scenario, out, log, notes, force=force, timeline=timeline,
                                   progress=progress, phase=phase, extendable=True, goes_on=goes_on)  # fmt: skip
    except ScenarioError as error:
        raise scenario.locate(error) from None
    except KeyboardInterrupt:
        options = {"--out": out, "--timeline": timeline, "--scheduler": scheduler}
        _print_words_again(file, overrides, options, log, insecure, plugins)
        raise
    _print_result(file, finished, scenario, as_json, quiet, verbose)


def _scenario_of(file: str, trust_plugins: bool) -> str:
    """The scenario's file, also of the folder of a complete run, which may be somebody else's.

    Raises:
        InvalidScenario: such a folder names plugin files that may not be executed.
    """
    from simfl.results.file_names import SCENARIO, is_finished
    from simfl.scenario import Scenario
    from simfl.scenario.plugin_files import Trust

    if not is_finished(Path(file)):
        return file
    Scenario.load(path := Path(file) / SCENARIO, trust=Trust(trust_plugins))
    return str(path)


def _print_notes(file: str, notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"{file}: note: {note}", err=True)


def _check_timeline(file: Path | None) -> None:
    """Refuses a file of --timeline that cannot be written, or holds results."""
    from simfl.results.file_names import refuse_result_files

    if file is not None:
        refuse_result_files(file)
        writable(file, "--timeline")


def _with_means(scenario: "Scenario", scheduler: str | None, insecure: bool) -> "Scenario":
    """The scenario with a scheduler; refused where nobody trains on its cluster."""
    if scheduler is not None and not scenario.learning.uses_cluster:
        raise SimflError("--scheduler is for clients that train on a cluster; add learning.backend=dask")
    return scenario.using(scheduler=scheduler, insecure=insecure)


def _left_out(scenario: "Scenario", summary: JsonObject) -> list[str]:
    """The scenario's notes, and what the expected cardinality that stands beside the measured one knows nothing of."""
    from simfl.selection.theory.expected_cardinality import left_out

    missing = left_out(scenario) if summary.get("expected_cardinality") is not None else []
    return [*scenario.notes, *([f"expected_cardinality leaves out {', '.join(missing)}"] if missing else [])]


def _print_words_again(
    file: str,
    overrides: Iterable[str],
    options: Mapping[str, object],
    log: Iterable[str],
    insecure: bool,
    plugins: Iterable[Path],
) -> None:
    """The same command once more; options that are None or the default are left out."""
    pairs = [(name, value) for name, value in options.items() if value is not None and str(value) != "results"]
    pairs += [("--plugin", plugin) for plugin in plugins]
    flags = [*(["--insecure"] if insecure else []), *(word for name in log for word in ("--log", name))]
    words = ["simfl", "run", file, *overrides, *(str(part) for pair in pairs for part in pair), *flags]
    click.echo(f"to continue: {shlex.join(words)}", err=True)


def _print_result(
    file: str, finished: "FinishedRun", scenario: "Scenario", as_json: bool, quiet: bool, verbose: bool
) -> None:
    from simfl.core.certificate_words import basis_facts
    from simfl.privacy.multiround.guarantee_trace import LOWER_BOUNDS, are_bounds
    from simfl.results.folder import ResultsFolder
    from simfl.results.run_files import infinite_names

    columns = ResultsFolder.open(finished.path).columns()
    certificates = [columns[name] for name in finished.summary if name in columns and columns[name].observer]
    if finished.reused:
        click.echo("these results were complete already; --force repeats the run", err=True)
    if as_json:
        about = {"path": str(finished.path), "digest": finished.digest, "reused": finished.reused}
        bases = {"certificates": {column.name: basis_facts(column) for column in certificates}}
        print_json(finished.summary | about | bases)
        return
    if verbose:
        _print_summary(finished.summary, columns)
    elif not quiet:
        _print_headlines(finished.summary, columns)
    if infinite := infinite_names(finished.summary, columns):
        click.echo(f"infinite (left empty): {', '.join(infinite)}", err=True)
    if are_bounds(finished.summary):
        click.echo(LOWER_BOUNDS, err=True)
    if (diverged := finished.summary.get("diverged_round")) is not None:
        click.echo(f"diverged at round {diverged}: a loss is no finite number; try a lower rate", err=True)
    if finished.summary["skipped"] == finished.summary["rounds"]:
        click.echo(_why_nothing(ResultsFolder.open(finished.path), finished.summary), err=True)
    for text in finished.summary.get("left_out", ()):
        click.echo(f"left out, as there are so many clients: {text}", err=True)
    if missed := _missed_target(scenario, finished.summary):
        click.echo(missed, err=True)
    click.echo(str(finished.path) if quiet else f"{finished.path}  digest {finished.digest}")
    _print_notes(file, () if quiet else _left_out(scenario, finished.summary))


def _print_headlines(summary: JsonObject, columns: "Mapping[str, Column]") -> None:
    """Six numbers of a run, each with its unit, its meaning and what it takes for granted."""
    from simfl.core.certificate_words import basis_lines
    from simfl.core.columns import number, unit_word

    values = {name: value for name, value in summary.items() if value is not None}
    groups = ([name for name in group if name in values and name in columns] for group in HEADLINES)
    shown = [columns[group[0]] for group in groups if group]
    texts = [f"{number(column, values[column.name])} {unit_word(column)}" for column in shown]
    widths = max(len(column.name) for column in shown), max(map(len, texts))
    for column, value in zip(shown, texts, strict=True):
        click.echo(f"{column.name:<{widths[0]}}  {value:<{widths[1]}}  {column.sentence}")
    for line in basis_lines(shown, attrgetter("name")):
        click.echo(line)
    count = len(_single_values(summary))
    click.echo(f"{summary['rounds']} rounds, {summary['skipped']} of them skipped; -v prints all {count} values")


def _single_values(summary: JsonObject) -> JsonObject:
    """What of ``summary.json`` is one value."""
    return {name: value for name, value in summary.items() if isinstance(value, (str, int, float))}


def _print_summary(summary: JsonObject, columns: "Mapping[str, Column]") -> None:
    """All of ``summary.json`` that is one value."""
    from simfl.core.certificate_words import basis_lines

    values = _single_values(summary)
    width = max(map(len, values), default=0)
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {f'{value:.6g}' if isinstance(value, float) else value}")
    for line in basis_lines((columns[name] for name in summary if name in columns), attrgetter("name")):
        click.echo(line)
    best = (name for name in values if name in columns)
    if optimistic := [name for name in best if "optimistic" in columns[name].heading]:
        click.echo(f"optimistic, as the samples that measure it chose it: {', '.join(optimistic)}", err=True)


def _why_nothing(folder: "ResultsFolder", summary: JsonObject) -> str:
    """Why every round was skipped, in words: the commonest failure of the protocol, if it names any."""
    rows = csv.DictReader(folder.read("phases.csv").decode().splitlines() if "phases.csv" in folder else [])
    if reasons := Counter(row["failure"] for row in rows if row["failure"]):
        return "every round was skipped; in {1} the protocol failed: {0}".format(*reasons.most_common(1)[0])
    refused = ", or clients refused" if summary.get("refusing_clients") or summary.get("refused_sum") else ""
    return f"every round was skipped: in none were enough clients available and in time{refused}"


def _missed_target(scenario: "Scenario", summary: JsonObject) -> str | None:
    """That the accuracy, or the sums, at which the run was to end were not reached, if so."""
    from simfl.training.sgd_rule import RunLength

    if not isinstance(scenario.training, RunLength):
        return None
    wanted, summed = scenario.training.aggregations, summary["rounds"] - summary["skipped"]
    if wanted is not None and summed < wanted:
        return f"{summed} of {wanted} aggregations in {summary['rounds']} rounds: something else ended the run before"
    target = scenario.training.stop.target_accuracy
    reached = summary.get("test_accuracy")
    if target is None or (reached is not None and reached >= target):
        return None
    last = "no accuracy was measured" if reached is None else f"the last is {reached:.4g}"
    return f"the target accuracy {target:g} was not reached in {summary['rounds']} rounds: {last}"
