"""``simfl validate``"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.cli import completing
from simfl.cli.shared import as_json, load, plugin_option, print_json

if TYPE_CHECKING:
    from simfl.examine import Examined

__all__ = ["command"]

WRONG, MISSING = 2, 5


@click.command("validate", short_help="Check scenario files.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=completing.scenarios)
@click.option("--deep", is_flag=True, help="Load the data and build the model too, as a run would.")
@plugin_option
@as_json
@click.pass_context
def command(
    context: click.Context, files: tuple[str, ...], plugins: tuple[Path, ...], deep: bool, as_json: bool
) -> None:
    """Check scenario files: every problem with its line and the nearest valid value.

    The network and the devices are built and the data's headers compared with the model; nothing is trained. What this
    leaves unchecked is named, and what works but is perhaps not what was meant. Exit code 2: something is wrong; 5:
    nothing is, but data or a package are not here.
    """
    reports = []
    codes = {0}
    for file in files:
        found, digest = _examined(file, plugins, deep)
        codes.add(WRONG if found.problems else MISSING if found.missing else 0)
        if as_json:
            reports.append(_report(file, found, digest))
        else:
            _print(file, found, digest)
    if as_json:
        print_json(reports)
    context.exit(WRONG if WRONG in codes else max(codes))


def _examined(file: str, plugins: tuple[Path, ...], deep: bool) -> tuple["Examined", str | None]:
    """What was found, and the digest of a scenario in which nothing is wrong."""
    from simfl.errors import MissingError, ScenarioError
    from simfl.examine import Examined, examine
    from simfl.scenario import InvalidScenario

    try:
        scenario = load(file, (), plugins)
    except InvalidScenario as error:
        return Examined(list(error.problems)), None
    except MissingError as error:
        return Examined(missing=[str(error)]), None
    found = examine(scenario, deep)
    try:
        return found, None if found.problems else scenario.digest
    except ScenarioError as error:  # a data file that cannot be read
        return Examined(list(scenario.located(error).problems)), None


def _report(file: str, found: "Examined", digest: str | None) -> dict[str, Any]:
    problems = [
        {"line": p.place.line or None, "column": p.place.column or None, "key": p.key, "message": p.message}
        for p in found.problems
    ]
    about = {"file": file, "valid": not found.problems, "digest": digest, "problems": problems}
    return about | {"missing": found.missing, "unchecked": found.unchecked, "cautions": found.cautions}


def _print(file: str, found: "Examined", digest: str | None) -> None:
    from simfl.scenario import InvalidScenario

    if found.problems:
        click.echo(str(InvalidScenario(found.problems)), err=True)
    for missing in found.missing:
        click.echo(f"{file}: {missing}", err=True)
    if digest is not None:
        click.echo(f"{file}: valid, digest {digest}")
        if found.unchecked:
            click.echo(f"{file}: not checked without --deep: {'; '.join(found.unchecked)}")
        for caution in found.cautions:
            click.echo(f"{file}: note: {caution}")
