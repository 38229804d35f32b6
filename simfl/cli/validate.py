"""``simfl validate``"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.cli.shared import as_json, load, plugin_option, print_json

if TYPE_CHECKING:
    from simfl.scenario import Problem

__all__ = ["command"]


@click.command("validate", short_help="Check scenario files.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@plugin_option
@as_json
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], plugins: tuple[Path, ...], as_json: bool) -> None:
    """Check scenario files: every problem with its line and the nearest valid value."""
    from simfl.scenario import InvalidScenario

    reports: list[dict[str, Any]] = []
    for file in files:
        try:
            digest: str | None = load(file, (), plugins).digest
            problems: Sequence[Problem] = ()
        except InvalidScenario as error:
            digest, problems = None, error.problems
            if not as_json:
                click.echo(str(error), err=True)
        else:
            if not as_json:
                click.echo(f"{file}: valid, digest {digest}")
        found = [
            {"line": p.place.line or None, "column": p.place.column or None, "key": p.key, "message": p.message}
            for p in problems
        ]
        reports.append({"file": file, "valid": not problems, "digest": digest, "problems": found})
    if as_json:
        print_json(reports)
    context.exit(0 if all(report["valid"] for report in reports) else 2)
