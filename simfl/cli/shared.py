"""What several commands have in common: their arguments, reading a scenario, printing JSON."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from simfl.scenario import Scenario

__all__ = ["as_json", "load", "print_json", "scenario_arguments"]

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def scenario_arguments(command: Any) -> Any:
    """FILE and the overrides behind it."""
    command = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")(command)
    return click.argument("file")(command)


def load(file: str, overrides: tuple[str, ...] = ()) -> "Scenario":
    """The scenario in a file, or on stdin if the file is called ``-``.

    Raises:
        InvalidScenario: with everything that is wrong.
    """
    from simfl.scenario import InvalidScenario, Place, Problem, Scenario
    from simfl.scenario.text import MAX_BYTES, decode

    if file != "-":
        return Scenario.load(Path(file), overrides)
    try:
        text = decode(sys.stdin.buffer.read(MAX_BYTES + 1))
    except ValueError as error:
        raise InvalidScenario([Problem(Place("stdin"), "", str(error))]) from None
    return Scenario.parse(text, "stdin", overrides)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False))
