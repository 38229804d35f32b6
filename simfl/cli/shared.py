"""What several commands have in common: their arguments, reading a scenario, printing JSON."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.cli import completing

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


def load_plugins(plugins: tuple[Path, ...]) -> None:
    """Executes the plugin files of ``--plugin``.

    Raises:
        SimflError: one does not load.
    """
    from simfl.core.errors import SimflError
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
    from simfl.scenario.yaml.text import MAX_BYTES, decode

    if file != "-":
        return Scenario.load(Path(file), overrides, plugins)
    try:
        text = decode(sys.stdin.buffer.read(MAX_BYTES + 1))
    except ValueError as error:
        raise InvalidScenario([Problem(Place("stdin"), "", str(error))]) from None
    return Scenario.parse(text, "stdin", overrides, plugins=plugins)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def writable(file: Path, option: str) -> None:
    """Refuses a file that could not be written later, before any work is done for it.

    Raises:
        SimflError: its folder is not there or not writable, or a folder has its name.
    """
    from simfl.core.errors import SimflError

    folder = file.parent
    if not folder.is_dir():
        raise SimflError(f"{option} {file}: there is no folder {folder}")
    if file.is_dir():
        raise SimflError(f"{option} {file}: is a folder")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise SimflError(f"{option} {file}: cannot be written")
