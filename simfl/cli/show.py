"""``simfl show``"""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from simfl.cli.shared import as_json, load, print_json, scenario_arguments, trusting_plugins
from simfl.core.errors import SimflError


@click.command("show", short_help="Print a scenario with all defaults filled in.")
@scenario_arguments
@click.option(
    "--view",
    "observer",
    metavar="OBSERVER",
    help="Of the folder of a run, print what an observer received instead: server, or client/ and a number.",
)
@trusting_plugins
@as_json
def command(
    file: str,
    overrides: tuple[str, ...],
    plugins: tuple[Path, ...],
    observer: str | None,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Print a scenario as it will run: overrides applied, every default filled in.

    What is printed is a scenario again; its data files are named as seen from the working directory. Where FILE is the
    folder of a run or a sweep, what it was made from is printed as it lies there, with name, tags and note.

    `simfl show data FILE` says which client holds which data, `simfl show schema` prints the JSON Schema of scenarios.

    With --view it is what an observer received in each round of a run: sums (whose updates, with which weights), single
    updates, messages of sessions that failed or came too late, and the noise in them.
    """
    if (folder := _results_folder(file)) is not None:
        if overrides:
            raise SimflError(f"{file}: overrides are for scenario files, not for the folder of a run")
        _show_results(folder, as_json) if observer is None else _show_view(folder, observer, trust_plugins, as_json)
        return
    if observer is not None:
        raise SimflError(f"--view: {file} is a scenario; nothing has been received yet, name the folder of a run")
    scenario = load(file, overrides, plugins)
    if as_json:
        print_json(scenario.plain(Path()))
    else:
        click.echo(scenario.to_yaml(Path()), nl=False)


def _results_folder(file: str) -> Path | None:
    """The folder of results that is meant, if no scenario is; refuses a name that means several."""
    from simfl.api.results_index import NoResultsError, find_results
    from simfl.scenario.builtin import find

    if file == "-" or find(file).path.is_file():
        return None
    with suppress(NoResultsError):  # then it is a scenario that is not there
        return find_results(file, Path("results"))
    return None


def _show_view(folder: Path, observer: str, trust_plugins: bool, as_json: bool) -> None:
    from simfl.cli.view_text import view_json, view_lines
    from simfl.results.folder import ResultsFolder
    from simfl.runs.accounting import view_of_run

    view = view_of_run(folder, observer, trust_plugins=trust_plugins)
    if as_json:
        print_json(view_json(view))
        return
    for line in view_lines(view, ResultsFolder.open(folder).summary.get("privacy_assumes", "")):
        click.echo(line)


def _show_results(folder: Path, as_json: bool) -> None:
    from simfl.results.file_names import SCENARIO, is_finished, is_swept
    from simfl.results.folder import ResultsFolder
    from simfl.results.notes import read_notes
    from simfl.scenario.yaml.reader import read

    notes = read_notes(folder)
    if is_swept(folder):
        text = ResultsFolder.open_sweep(folder).read("sweep.yaml").decode()
    else:
        opened = ResultsFolder.open if is_finished(folder) else ResultsFolder.open_begun
        text = opened(folder).read(SCENARIO).decode()
    if as_json:
        print_json({**asdict(notes), "scenario": read(text, SCENARIO).value})
        return
    for line in notes.to_text().splitlines():
        click.echo(f"# {line}")
    click.echo(text, nl=False)
