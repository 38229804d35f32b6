"""What several commands have in common: their arguments, reading a scenario, printing JSON."""

import json
import os
import sys
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.cli import completing
from simfl.core.errors import SimflError
from simfl.runs.tracking import TRACKERS

if TYPE_CHECKING:
    from simfl.scenario import Scenario

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


trusting_plugins = click.option(
    "--trust-plugins", is_flag=True,
    help="Execute plugin files that the results name, though they have not been executed here before.",
)  # fmt: skip

plugin_option = click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE", type=click.Path(path_type=Path),
    help="A Python file that registers plugins, besides those that the scenario names.",
)  # fmt: skip

figure_plugin_option = click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE", type=click.Path(path_type=Path),
    help="A Python file that registers figures; plugin files that the results name are not executed.",
)  # fmt: skip


MOST_COLUMNS = 8
"""Of a LaTeX table that fits a page."""

LATEX = "simfl.latex"
"""Where the context keeps the file of ``--latex``."""

out_option = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default="results", show_default=True,
    help="Root folder of all results.",
)  # fmt: skip

log_option = click.option(
    "--log", multiple=True, type=click.Choice([*TRACKERS]),
    help="Log every round there while it runs; may be repeated. Offline unless the library is told otherwise.",
)  # fmt: skip


def check_latex(file: Path | None) -> None:
    """Refuses a file of ``--latex`` that could not be written later.

    Raises:
        SimflError: it cannot be written, or is a file of results.
    """
    from simfl.results.file_names import refuse_result_files

    if file is not None:
        writable(file, "--latex")
        refuse_result_files(file)


def _keep_latex(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    check_latex(file)
    context.meta[LATEX] = file


latex_option = click.option(
    "--latex", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", expose_value=False,
    callback=_keep_latex, help="Also write the means as a LaTeX table (booktabs), the best in bold.",
)  # fmt: skip


def write_asked_latex(folder: Path, done: int) -> None:
    """Writes the table of a sweep or comparison into the file of ``--latex``, if there is one and runs are done."""
    if done and (file := click.get_current_context().meta[LATEX]):
        write_latex(folder, file)


def write_latex(folder: Path, file: Path, columns: tuple[str, ...] = (), sort: str | None = None) -> None:
    """Writes the means of results as a LaTeX table, its rows in the order of ``--sort``.

    Raises:
        SimflError: no run is complete, or none has such a column.
    """
    from simfl.core.storage.disk import write_atomically
    from simfl.report.study_reader import read_study
    from simfl.report.study_tables import chosen_measures, latex

    study = read_study([folder])
    write_atomically(file, latex(study, columns, sort).encode())
    count = len(chosen_measures(study, columns))
    if count > MOST_COLUMNS and not columns:
        click.echo(f"{file}: {count} columns; fewer by: simfl export {folder} --latex {file} "
                   "--columns test_accuracy,time_s,guarantee_weak", err=True)  # fmt: skip


def values_by_key(texts: Iterable[str]) -> dict[str, str]:
    """What several ``--where`` say."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--where {text}: give KEY=VALUE")
        if key in values:
            raise click.UsageError(f"--where: {key} is given twice, as {values[key]} and as {value}; one value fits")
        values[key] = value
    return values


sort_option = click.option("--sort", metavar="COLUMN", help="Order the rows by a column, the best first; -COLUMN: "
                           "the other way round.")  # fmt: skip


def note_options(command: Any) -> Any:
    """--name, --tag and --note."""
    options = (
        click.option("--name", "run_name", default="", metavar="TEXT", help="A name, shown by simfl ls."),
        click.option("--tag", "tags", multiple=True, metavar="WORD", help="A tag, to find it by; may be repeated."),
        click.option("--note", default="", metavar="TEXT", help="A note."),
    )
    for option in reversed(options):
        command = option(command)
    return command


class ResultsPath(click.Path):
    """A folder of results: its path, or what ``simfl ls`` shows of a run in ``results``, its name or digest.

    Args:
        exists: whether anything but a folder that is there is refused at once.
    """

    def __init__(self, exists: bool = False) -> None:
        super().__init__(exists=exists, file_okay=not exists, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.path.lexists(value) and os.path.isdir("results") and os.sep not in str(value):
            from simfl.api.results_index import find_results

            value = find_results(str(value), Path("results"))
        return super().convert(value, param, ctx)


def load_plugins(plugins: tuple[Path, ...]) -> None:
    """Executes the plugin files of ``--plugin``.

    Raises:
        SimflError: one does not load.
    """
    from simfl.scenario import plugin_files

    for path in plugins:
        try:
            plugin_files.load(path)
        except ValueError as error:
            raise SimflError(f"--plugin {path} {error}") from None


def scenario_arguments(command: Any) -> Any:
    """FILE, the overrides behind it, and --plugin."""
    command = plugin_option(command)
    command = click.argument(
        "overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=completing.overrides)(command)  # fmt: skip
    return click.argument("file", shell_complete=completing.scenarios)(command)


def load(file: str, overrides: tuple[str, ...] = (), plugins: tuple[Path, ...] = ()) -> "Scenario":
    """The scenario in a file, or on stdin if the file is called ``-``.

    Raises:
        InvalidScenario: with everything that is wrong.
    """
    from simfl.scenario import InvalidScenario, Place, Problem, Scenario
    from simfl.scenario.yaml.reader import MAX_BYTES, decode

    if file != "-":
        return Scenario.load(Path(file), overrides, plugins)
    try:
        text = decode(sys.stdin.buffer.read(MAX_BYTES + 1))
    except ValueError as error:
        raise InvalidScenario([Problem(Place("stdin"), "", str(error))]) from None
    return Scenario.parse(text, "stdin", overrides, plugins=plugins)


def print_json(document: object) -> None:
    """Prints a document; numbers that JSON does not have (NaN, infinity) become null."""
    click.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def writable(file: Path, option: str) -> None:
    """Refuses a file that could not be written later, before any work is done for it.

    Raises:
        SimflError: its folder is not there or not writable, or a folder has its name.
    """
    folder = file.parent
    if not folder.is_dir():
        raise SimflError(f"{option} {file}: there is no folder {folder}")
    if file.is_dir():
        raise SimflError(f"{option} {file}: is a folder")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise SimflError(f"{option} {file}: cannot be written")
