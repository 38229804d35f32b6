"""Commands of installed packages: entry points of the group ``simfl.command``, imported when they are called.

An entry point's name is the command, of one word or two (``serve client``, of a package that has ``serve``, too); it
names a click command. What help says of it is the first sentence of its module's docstring.
"""

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint

import click

from simfl.core.errors import PluginError
from simfl.core.registration.packages import docstring_of, home_of, is_rim, load_package, origin_of, packages, raised_at

NAME = re.compile(r"[a-z][a-z0-9-]*( [a-z][a-z0-9-]*)?")


@dataclass
class PackageCommands:
    """The commands of installed packages.

    Attributes:
        entries: by name; simfl's own first.
        refused: why others are none, a line each.
    """

    entries: dict[str, EntryPoint] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def once_called(self, word: str) -> str | None:
        """The command of two words of simfl's own that was called by the second one alone."""
        return next((n for n, entry in self.entries.items() if is_rim(entry) and n.split()[1:] == [word]), None)

    def sections(self, limit: int) -> dict[str, dict[str, str]]:
        """Short help by name, by the package that they are of.

        Args:
            limit: letters of a help text.
        """
        sections: dict[str, dict[str, str]] = {}
        for name, entry in self.entries.items():
            about = click.Command(name, help=docstring_of(entry.module)).get_short_help_str(limit)
            sections.setdefault(home_of(entry), {})[name] = about
        return sections

    def failure(self, name: str, error: BaseException) -> str | None:
        """What a command of somebody else's package raised; None of simfl's own."""
        entry = self.entries.get(name)
        if entry is None or is_rim(entry):
            return None
        return f"command '{name}' of the package {origin_of(entry)} failed: {raised_at(error)}"


@cache
def package_commands(builtin: Collection[str]) -> PackageCommands:
    """
    Args:
        builtin: first words that no package may take.
    """
    of = PackageCommands()
    entries = sorted(packages("simfl.command"), key=lambda entry: not is_rim(entry))
    for entry in entries:
        if why := _why_refused(entry, of, builtin, entries):
            of.refused.append(f"command '{entry.name}' of the package {origin_of(entry)} is refused: {why}")
        else:
            of.entries[entry.name] = entry
    return of


def _why_refused(
    entry: EntryPoint, of: PackageCommands, builtin: Collection[str], entries: list[EntryPoint]
) -> str | None:
    first, _, second = entry.name.partition(" ")
    if not NAME.fullmatch(entry.name):
        return "a name is one word or two of small letters, digits and dashes"
    if not entry.pattern.match(entry.value):
        return f"{entry.value!r} names no module"
    if first in builtin:
        return f"simfl has a command '{first}'"
    if entry.name in of.entries:
        return f"the package {origin_of(of.entries[entry.name])} has one of this name"
    if second and not any(each.name == first and home_of(each) == home_of(entry) for each in entries):
        return f"the same package has no command '{first}'"
    return None


def load_command(entry: EntryPoint) -> click.Command:
    """
    Raises:
        PluginError: its module raises something, or has no such command.
    """
    problem = load_package(entry, lambda name: True)
    if problem is None:
        command = vars(sys.modules[entry.module]).get(entry.attr)
        if isinstance(command, click.Command):
            return command
    why = f"{entry.value} is no command of click" if problem is None else problem.why
    raise PluginError(f"command '{entry.name}' of the package {origin_of(entry)}", f"does not load: {why}")


def broken_commands(of: PackageCommands) -> list[str]:
    """What is wrong with commands of packages, all of which are imported for that."""
    wrong = [*of.refused]
    for entry in of.entries.values():
        try:
            load_command(entry)
        except PluginError as error:
            wrong.append(str(error))
    return wrong
