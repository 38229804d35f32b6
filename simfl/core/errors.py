"""What can go wrong in a user's hands; each becomes one line on stderr and an exit code."""

import errno
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from os.path import basename, commonprefix

MAX_KNOWN, MAX_LETTERS = 5000, 200
LIKE = 0.7
PREFIX = 3
"""Letters from which on a word with which one other begins, or a part of it, stands for it."""

PLUGIN_FILE = "simfl_plugin_"
"""How the names of modules begin that are plugin files."""

MOST_NAMES = 3
"""Configurations that a sentence names; of more it says how many they are."""


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
        super().__init__(key, message)
        self.key, self.message = key, message

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


class BusyError(SimflError):
    """Another process is working on the same results (exit 2)."""


class StopRun(SimflError):
    """Raised by a callback to stop its run, which goes on when it is run again; any other exception does the same."""


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
        cls = type(plugin)
        file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
        place = basename(file) if cls.__module__.startswith(PLUGIN_FILE) and file else cls.__module__
        self.plugin, self.message = plugin if isinstance(plugin, str) else f"{place}.{cls.__qualname__}", message
        super().__init__(self.plugin, message)

    def __str__(self) -> str:
        return f"{self.plugin}: {self.message}"


class ExhaustedError(SimflError):
    """There was not enough memory or disk: a process was killed that had work to do (exit 6)."""

    exit_code = 6


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE}
NO_MEMORY = ("failed to map segment", "allocate memory", "not enough memory", "out of memory", "can't start new thread")
"""What libraries say of it that raise other errors."""


def is_exhausted(error: BaseException | None) -> bool:
    """Whether there was not enough memory or disk for what was at work, or for a library that was to be loaded."""
    while error is not None:
        said = error.strerror or error if isinstance(error, OSError) else error
        kinds = isinstance(error, RuntimeError | ImportError | OSError)
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in FULL):
            return True
        if kinds and any(words in str(said).lower() for words in NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


class CrashError(SimflError):
    """A process of simfl's own ended by a fault in what it executed (exit 1)."""

    exit_code = 1


class MissingError(SimflError):
    """An extra package, data set or device is not there (exit 5); the message says how to get it."""

    exit_code = 5


@contextmanager
def requires_extra(extra: str, what: str) -> Iterator[None]:
    """What is imported inside comes with an extra.

    Raises:
        MissingError: it is not installed.
    """
    try:
        yield
    except ImportError:
        raise MissingError(f'{what} needs the extra "{extra}": pip install "simfl[{extra}]"') from None


def printable(text: str) -> str:
    """A text of somebody else's for a terminal: control characters, and those that reverse text, are spelled out.

    Line ends are spelled out too: ``\\n``.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def suggestion(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the known word nearest to a mistyped one, or nothing where none is near."""
    near = nearest(word, known)
    return f"; did you mean '{near}'?" if near is not None else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that another one is mistyped or cut short; None where none is, or there is too much to compare.

    Other numbers are no slip, and more than one slip leaves the first letter: ``vgg16`` is no ``vgg11``, ``femnist``
    no ``mnist``.
    """
    words = list(known)
    if len(words) > MAX_KNOWN or not word or len(word) > MAX_LETTERS:
        return None
    longer = [each for each in words if len(word) >= PREFIX and f"_{word}" in f"_{each}"]
    if len(longer) == 1:
        return longer[0]
    numbers = re.findall(r"\d+", word)
    alike = [each for each in words if re.findall(r"\d+", each) == numbers and not word.startswith(f"{each}_")]
    slips = [each for each in alike if len(word) > 1 and _one_slip(word, each)]
    near = get_close_matches(word, slips or [each for each in alike if each[:1] == word[0]], 1, 0 if slips else LIKE)
    return near[0] if near else None


def _one_slip(word: str, other: str) -> bool:
    """Whether one letter is missing, too many or another, or two are exchanged."""
    same = len(commonprefix((word, other)))
    one, two = word[same:], other[same:]
    return one[1:] in (two, two[1:]) or one == two[1:] or (one[:2], one[2:]) == (two[1::-1], two[2:])


def amount(number: float, noun: str) -> str:
    """``"1 client"``, ``"1,200 clients"``.

    Args:
        number: a count, or a mean.
        noun: in the singular; an s makes its plural.
    """
    text = f"{number:,.6g}" if isinstance(number, float) else f"{number:,}"
    return f"{text} {noun}" if number == 1 else f"{text} {noun}s"


def there_are(number: int, noun: str) -> str:
    """``"there is 1 client"``, ``"there are 2 clients"``."""
    return f"there {'is' if number == 1 else 'are'} {number:,} {noun}{'' if number == 1 else 's'}"


def label_list(labels: Sequence[str]) -> str:
    """``"a and b"``, ``"5 configurations"``."""
    return " and ".join(labels) if len(labels) <= MOST_NAMES else amount(len(labels), "configuration")
