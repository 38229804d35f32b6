"""The command ``simfl``: results on stdout, messages on stderr, one exit code for each kind of end.

Each command is a module of this package, or of another one that an entry point names, imported when it is asked for;
what is slow to import (torch, scipy, ...) is imported inside the command that needs it, so that help and checks start
at once.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from simfl.cli.package_commands import PackageCommands, load_command, package_commands
from simfl.core.errors import MissingError, SimflError, is_exhausted, nearest, printable
from simfl.core.registration.packages import lacking
from simfl.core.version import VERSION

__all__ = ["main", "simfl"]

COMMANDS_ELSEWHERE = {
    "check": "validate",
    "config": "show",
    "create": "new",
    "dashboard": "watch",
    "delete": "ls rm",
    "draw": "plot",
    "help": "--help",
    "init": "new",
    "launch": "run",
    "lint": "validate",
    "multirun": "sweep",
    "optimise": "search",
    "optimize": "search",
    "plugins": "list",
    "remove": "ls rm",
    "results": "ls",
    "runs": "ls",
    "scenarios": "list scenarios",
    "simulate": "run",
    "start": "run",
    "train": "run",
    "tune": "search",
    "version": "--version",
}
"""What other programs call a command."""

OPTIONS_ELSEWHERE = {
    "-m": ("simfl sweep",),
    "--multirun": ("simfl sweep",),
    "--n-jobs": ("--jobs", "--processes"),
    "--n-trials": ("--runs", "--replications"),
    "--seeds": ("--replications",),
    "--trials": ("--runs", "--replications"),
    "--verify": ("simfl run --verify FOLDER",),
    "--workers": ("--jobs", "--processes"),
}
"""What other programs call an option: options here, of which a command has one or none, or another command."""


def command_meant(word: str, commands: Iterable[str]) -> str | None:
    """The command, or the whole line, that an unknown command may have meant: ``simfl start``, ``simfl mine.yaml``."""
    if word in COMMANDS_ELSEWHERE:
        return COMMANDS_ELSEWHERE[word]
    from simfl.scenario.builtin import SUFFIXES, builtins

    if word in builtins() or Path(word).suffix in SUFFIXES:
        return f"simfl run {word}"
    return nearest(word, commands)


def key_meant(option: str) -> str | None:
    """The key of a scenario that an unknown option names: ``--rounds`` is ``training.rounds``."""
    from simfl.scenario import Scenario
    from simfl.scenario.fields import key_homes, keys_of
    from simfl.scenario.messages.elsewhere import counterparts
    from simfl.scenario.messages.suggestions import same_name
    from simfl.scenario.yaml.places import dotted_key

    word = option.lstrip("-").replace("-", "_")
    if (key := same_name(word, keys_of(Scenario, {}))) is not None:
        return key
    for part, *_ in counterparts(word):
        if part.key:
            return dotted_key((*part.place, part.key))
    places = sorted((home for home, _ in key_homes(Scenario, word)), key=len)
    return dotted_key((*places[0], word)) if places else None


UNLIKE_POSIX = "simfl runs on Linux and macOS, whose locks it uses; on Windows run it in WSL"

INTERNAL, USAGE, EXHAUSTED = 1, 2, 6


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would be."""


@contextmanager
def failures(context: click.Context, debug: bool = False) -> Iterator[None]:
    """Turns what is raised inside into a message and an exit code; SIGTERM interrupts like Ctrl-C.

    Args:
        context: of the running command, which is left with the exit code.
        debug: print the traceback of an internal error instead of writing it to a file.
    """
    try:
        with _terminable():
            yield
    except SimflError as error:
        _end(context, str(error), error.exit_code)
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt as interrupt:
        stopped = isinstance(interrupt, Terminated)
        _end(context, "terminated" if stopped else "interrupted", 143 if stopped else 130)
    except MemoryError:
        _end(context, "out of memory", EXHAUSTED)
    except (ImportError, RuntimeError) as error:
        if is_exhausted(error):
            _end(context, "out of memory", EXHAUSTED)
        _internal(context, error, debug)
    except OSError as error:
        if error.errno is None:
            _internal(context, error, debug)
        about = f"{error.filename}: " if error.filename else ""
        _end(context, about + (error.strerror or str(error)), EXHAUSTED if is_exhausted(error) else USAGE)
    except SystemExit as error:  # a plugin does not end the command
        from simfl.core.registration.family_index import plugin_failure

        if plugin_failure(error) is None:
            raise
        _internal(context, error, debug)
    except Exception as error:
        _internal(context, error, debug)


def _end(context: click.Context, message: str, code: int) -> NoReturn:
    click.echo("\n".join(map(printable, message.split("\n"))), err=True)
    context.exit(code)


def _internal(context: click.Context, error: Exception | SystemExit, debug: bool) -> NoReturn:
    import tempfile
    import traceback

    from simfl.core.registration.family_index import plugin_failure, suspect

    where = "".join(traceback.format_exception(error))
    if about := plugin_failure(error) or others().failure(context.invoked_subcommand or "", error):
        _end(context, (where if debug else "") + about, INTERNAL)
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:200] + suspect(error)
    if debug:
        _end(context, f"{where}internal error ({summary}); please report it with the lines above", INTERNAL)
    try:
        handle, path = tempfile.mkstemp(prefix="simfl-error-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(where)
        _end(context, f"internal error ({summary}); please report it with the file {path}", INTERNAL)
    except OSError:
        _end(context, f"internal error ({summary}); please report it with the output of simfl --debug", INTERNAL)


@contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return

    def raise_terminated(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


GROUPS = {
    "Begin": ("new", "run", "compare", "report", "watch", "serve"),
    "Study": ("sweep", "search", "plot", "export", "ls"),
    "Privacy": ("audit", "forecast", "advise", "attack", "theory"),
    "Look up": ("list", "show", "validate", "doctor"),
}
"""As help lists the commands; the module of each of simfl's own holds it as ``command``."""

INSIDE: dict[tuple[str, ...], str] = {
    ("run", "--verify"): "verify",
    ("ls", "tag"): "tag",
    ("ls", "rm"): "rm",
    ("show", "schema"): "schema",
    ("show", "data"): "data",
}
"""Commands of two words, and their modules; the module's name alone is what they were called before."""

DEPLOYMENT = "simfl.deployment"
OF_DEPLOYMENT = ("advise", "audit", "forecast", "serve")
"""Commands that packages offer, and the package simfl.deployment where it is installed."""

COMMANDS = [name for names in GROUPS.values() for name in names if name not in OF_DEPLOYMENT]


def others() -> PackageCommands:
    """The commands of installed packages."""
    return package_commands(frozenset([*COMMANDS, *INSIDE.values()]))


class _Commands(click.Group):
    """Finds a command in its module; its failures become a line and an exit code."""

    def list_commands(self, context: click.Context) -> list[str]:
        single = (name for name in others().entries if " " not in name)
        return [*COMMANDS, *single]  # ``list`` is one of the modules here

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS or name in INSIDE.values():
            return import_module(f"simfl.cli.{name}").command
        try:
            return load_command(others().entries[name]) if name in others().entries else None
        except SimflError:
            if context.resilient_parsing:  # a command that does not load is not proposed
                return None
            raise

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, [*COMMANDS, *others().entries]))
        of_packages = others().sections(limit)
        rims = of_packages.pop(DEPLOYMENT, {})
        for group, names in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, rims.get(name) or self._about(context, name, limit))
                                    for name in names if name in COMMANDS or name in rims])  # fmt: skip
        two = [(" ".join(words), self._about(context, name, limit)) for words, name in INSIDE.items()]
        with formatter.section("Of two words"):
            formatter.write_dl([*two, *((name, about) for name, about in rims.items() if " " in name)])
        for title, lines in of_packages.items():
            with formatter.section(f"Of {title}"):
                formatter.write_dl([*lines.items()])
        for line in others().refused:
            click.echo(line, err=True)

    def _about(self, context: click.Context, name: str, limit: int) -> str:
        command = self.get_command(context, name)
        return command.get_short_help_str(limit) if command else ""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (inside := INSIDE.get((args[0], *args[1:2]))) is not None:
            return " ".join(args[:2]), self.get_command(context, inside), args[2:]
        if args[0] not in COMMANDS and len(args) > 1 and (two := " ".join(args[:2])) in others().entries:
            return two, self.get_command(context, two), args[2:]
        new = next((" ".join(words) for words, name in INSIDE.items() if name == args[0]), None)
        if args[0] not in COMMANDS and new is None and (new := others().once_called(args[0])):
            args = [new, *args[1:]]
        if new is not None and not context.resilient_parsing:
            old = new.split()[-1] if args[0] == new else args[0]
            click.echo(f"simfl {old} is simfl {new} now; the old name goes with the next version", err=True)
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            if args[0] in OF_DEPLOYMENT:
                raise MissingError(lacking(f"simfl {args[0]}")) from None
            near = command_meant(args[0], self.list_commands(context))
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
    try:
        import_module("fcntl")
    except ImportError:
        sys.exit(UNLIKE_POSIX)
    gc.set_threshold(200_000, *gc.get_threshold()[1:])  # what is imported and loaded stays; runs do this themselves
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # simfl uses none; to look reads all metadata
    if "_SIMFL_COMPLETE" in os.environ:
        import_module("simfl.cli.completing")
    simfl(prog_name="simfl")
