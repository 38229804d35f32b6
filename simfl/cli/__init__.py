"""The command ``simfl``: results on stdout, messages on stderr, one exit code for each kind of end.

Each command is a module of this package, imported when it is asked for; what is slow to import (torch, scipy,
...) is imported inside the command that needs it, so that help and checks start at once.
"""

from importlib import import_module
from typing import Any

import click

from simfl import __version__
from simfl.cli.failures import failures

__all__ = ["main", "simfl"]

COMMANDS = ("run", "validate", "show", "schema", "list", "doctor", "verify")


class _Commands(click.Group):
    """Finds a command in the module of its name; its failures become a line and an exit code."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        command: click.Command | None = import_module(f"simfl.cli.{name}").command if name in COMMANDS else None
        return command

    def invoke(self, context: click.Context) -> Any:
        with failures(context, debug=bool(context.params.get("debug"))):
            return super().invoke(context)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 internal error, 2 bad usage or scenario, 3 some runs of a sweep failed, 4 results do "
    "not match their digest, 5 something to install is missing, 6 out of disk or memory, 130/143 interrupted.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
def simfl(debug: bool) -> None:
    """Simulate federated learning: who takes part, when updates arrive, what the server learns, what it costs."""


def main() -> None:
    """The console command."""
    simfl(prog_name="simfl")
