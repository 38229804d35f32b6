"""The command ``simfl``: results on stdout, messages on stderr, one exit code for each kind of end.

Each command is a module of this package, imported when it is asked for; what is slow to import (torch, scipy, ...) is
imported inside the command that needs it, so that help and checks start at once.
"""

import os
from importlib import import_module
from typing import Any

import click

from simfl.cli.failures import failures
from simfl.cli.mistyped import OPTIONS_ELSEWHERE, command_meant, key_meant
from simfl.core.version import VERSION

__all__ = ["main", "simfl"]

COMMANDS = {
    "new": "simfl.cli.new",
    "run": "simfl.cli.run",
    "serve": "simfl.cli.serve",
    "client": "simfl.cli.client",
    "sweep": "simfl.cli.sweep",
    "compare": "simfl.cli.compare",
    "search": "simfl.cli.search",
    "ls": "simfl.cli.ls",
    "tag": "simfl.cli.tag",
    "rm": "simfl.cli.rm",
    "report": "simfl.cli.report",
    "plot": "simfl.cli.plot",
    "watch": "simfl.cli.watch",
    "validate": "simfl.cli.validate",
    "show": "simfl.cli.show",
    "schema": "simfl.cli.schema",
    "list": "simfl.cli.list",
    "theory": "simfl.cli.theory",
    "data": "simfl.cli.data",
    "attack": "simfl.cli.attack",
    "audit": "simfl.cli.audit",
    "calibrate": "simfl.cli.calibrate",
    "forecast": "simfl.cli.forecast",
    "export": "simfl.cli.export",
    "verify": "simfl.cli.verify",
    "doctor": "simfl.cli.doctor",
}
"""The module that holds each command as ``command``, in the order in which help lists them."""


class _Commands(click.Group):
    """Finds a command in its module; its failures become a line and an exit code."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS]  # ``list`` is one of the modules here

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        command: click.Command | None = import_module(COMMANDS[name]).command if name in COMMANDS else None
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            near = command_meant(args[0], COMMANDS)
            raise click.UsageError(error.message + (f" Did you mean '{near}'?" if near else ""), context) from None

    def invoke(self, context: click.Context) -> Any:
        with failures(context, debug=bool(context.params.get("debug"))):
            try:
                return super().invoke(context)
            except click.NoSuchOption as error:
                raise explain(error) from None


def explain(error: click.NoSuchOption) -> click.NoSuchOption:
    """An unknown option beside what does its work: another option or command, or a key of the scenario."""
    options = [] if error.ctx is None else [option for param in error.ctx.command.params for option in param.opts]
    replacements = (each for each in OPTIONS_ELSEWHERE.get(error.option_name, ()) if each in options or " " in each)
    replacement = next(replacements, None)
    takes_keys = error.ctx is not None and any(param.name == "overrides" for param in error.ctx.command.params)
    if replacement is not None:
        message = f"{error.message} Did you mean '{replacement}'?"
    elif takes_keys and (key := key_meant(error.option_name)) is not None:
        message = f"{error.message} Keys of a scenario are set without dashes: {key}=VALUE"
    else:
        return error
    return click.NoSuchOption(error.option_name, message, None, error.ctx)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 internal error, 2 bad usage or scenario, "
    "3 runs of a sweep or remote clients failed, "
    "4 results do not match their digest, 5 something to install is missing, 6 out of disk or memory, 130/143 "
    "interrupted.",
)
@click.version_option(VERSION, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
@click.pass_context
def simfl(context: click.Context, debug: bool) -> None:
    """Simulate federated learning: who takes part, when updates arrive, what the server learns, what it costs."""
    if os.environ.get("NO_COLOR"):  # rich heeds it by itself, click does not
        context.color = False


def main() -> None:
    """The console command."""
    if "_SIMFL_COMPLETE" in os.environ:
        import_module("simfl.cli.shells")
    simfl(prog_name="simfl")
