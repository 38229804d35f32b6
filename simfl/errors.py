"""What can go wrong in a user's hands; each becomes one line on stderr and an exit code."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BusyError",
    "IntegrityError",
    "MissingError",
    "PluginError",
    "ScenarioError",
    "SimflError",
    "suggestion",
]

MAX_KNOWN = 5000


class SimflError(Exception):
    """A failure with a message for the user and an exit code; never shown as a traceback."""

    exit_code = 2


class ScenarioError(SimflError):
    """The scenario asks for something impossible (exit 2).

    Args:
        key: dotted key. Where a plugin raises it, relative to the plugin (``"path"``, not ``"network.path"``; empty
            for the plugin as a whole): the scenario knows where the plugin stands.
        message: what is wrong and the nearest valid value.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message


class BusyError(SimflError):
    """Another process is working on the same results (exit 2)."""


class IntegrityError(SimflError):
    """A stored result or checkpoint does not match its digest (exit 4)."""

    exit_code = 4


class PluginError(SimflError):
    """A plugin, or what it has built, answered something impossible or failed (exit 1): its author can mend it.

    Args:
        plugin: the one that answered, or its name.
        message: what it did and what is asked of it.
    """

    exit_code = 1

    def __init__(self, plugin: object, message: str) -> None:
        super().__init__(f"{_called(plugin)}: {message}")
        self.message = message


def _called(plugin: object) -> str:
    cls = type(plugin)
    return plugin if isinstance(plugin, str) else f"{cls.__module__}.{cls.__qualname__}"


class MissingError(SimflError):
    """An extra package, data set or device is not there (exit 5); the message says how to get it."""

    exit_code = 5


def suggestion(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the known word nearest to a mistyped one, or nothing where none is near."""
    words = list(known)
    near = get_close_matches(word, words, n=1) if len(words) <= MAX_KNOWN else []
    return f"; did you mean '{near[0]}'?" if near else ""
