"""``simfl run --verify``"""

from pathlib import Path

import click

from simfl.cli.shared import ResultsPath, as_json, print_json, trusting_plugins
from simfl.core.errors import IntegrityError, printable

MISMATCH = 4


@click.command("verify", short_help="Repeat finished runs and compare.")
@click.argument("directories", nargs=-1, required=True, metavar="DIRECTORY...",
                type=ResultsPath(exists=True))  # fmt: skip
@trusting_plugins
@as_json
@click.pass_context
def command(context: click.Context, directories: tuple[Path, ...], trust_plugins: bool, as_json: bool) -> None:
    """Repeat the runs in results folders, elsewhere, and compare every file.

    Data sets are decoded from their sources again, not taken from the cache. A data file, plugin or results version of
    simfl that is another now than when the run was made is named. Plugin files are code: those that have not been
    executed here before are executed with --trust-plugins only. With --json one folder gives an object,
    several a list.
    """
    reports = [_verify(directory, trust_plugins, as_json) for directory in directories]
    if as_json:
        print_json(reports[0] if len(reports) == 1 else reports)
    context.exit(0 if all(one["identical"] for one in reports) else MISMATCH)


def _verify(directory: Path, trust_plugins: bool, quiet: bool) -> dict[str, object]:
    from simfl.runs.run import changed_inputs, verify

    try:
        tables = verify(directory, trust_plugins)
        others = changed_inputs(directory, trust_plugins)
    except IntegrityError as error:
        click.echo(printable(str(error)), err=True)
        return {"directory": str(directory), "identical": False, "tables": {}, "changed": [], "error": str(error)}
    identical = bool(tables) and all(tables.values())  # nothing compared is nothing verified
    for other in others:
        click.echo(printable(f"{directory}: {other}"), err=True)
    if not quiet:
        for name, same in tables.items():
            click.echo(printable(f"{name}: {'identical' if same else 'differs'}"))
        click.echo(f"{directory}: {'verified' if identical else 'not reproduced'}")
    return {"directory": str(directory), "identical": identical, "tables": tables, "changed": others}
