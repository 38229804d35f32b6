"""Plugin files: Python files that a scenario names under ``plugins`` and that register what it chooses.

A file is executed once a process, whatever path leads to it: it is known by the SHA-256 of its content, which is also
what counts in the scenario's digest. It should hold all that it needs besides installed packages: neighbouring files
are not imported, for they would belong to no digest. They are executed
if they are those of a scenario that the user names, not those that results bring along.

A results folder may be somebody else's, and its ``scenario.yaml`` may name plugin files, which are code. Whatever
reads the scenario of a results folder therefore executes a plugin file only if the user says so
(``--trust-plugins``, ``trust_plugins=True``), or if a file of the same content has been executed before: in this
process, or by this user for a scenario that the user named himself. The latter is remembered by SHA-256, as an empty
file in ``plugins`` in the cache folder; without a cache nothing is remembered.
"""

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import module_from_spec
from pathlib import Path

from simfl.core.errors import PLUGIN_FILE as PREFIX
from simfl.core.registration.family_index import broken, plugin_file_paths, undone
from simfl.core.registration.packages import raised_at
from simfl.core.registration.protocol import refuse_misfits
from simfl.core.registration.source_code import LARGEST_BYTES, spec_of
from simfl.core.storage.disk import cache_root, open_regular
from simfl.scenario import data_files
from simfl.scenario.yaml.places import InvalidScenario, Place, Problem, shown
from simfl.scenario.yaml.reader import Document

REMEMBERED = "plugins"
"""The folder of the cache with an empty file for each plugin file, called by the SHA-256 of its content."""


@dataclass(frozen=True)
class Trust:
    """Which plugin files may be executed, besides those whose content has been executed before.

    Attributes:
        everything: whatever the scenario names.
        digests: SHA-256 of the content of files, hexadecimal.
        named: the user himself has named the scenario, so that its plugin files are remembered.
    """

    everything: bool = False
    digests: frozenset[str] = frozenset()
    named: bool = False

    def check(self, path: Path, digest: str, mark: str | None = None) -> None:
        """
        Args:
            path: a plugin file or module that would be executed.
            digest: SHA-256 of its content, hexadecimal.
            mark: what is remembered of it, also hexadecimal; None = the digest.

        Raises:
            ValueError: it may not be; one line that says which file it is and how to look at it.
        """
        known = mark or digest
        if self.everything or known in self.digests or _was_executed(known):
            return
        where = str(path.absolute())
        look = f"less {shlex.quote(where)}" if where.isprintable() else f"less {shown(where)}"
        raise ValueError(
            f"is a plugin file that these results name, i.e. code not executed here before (SHA-256 {digest}); "
            f"look at it with: {look}; to execute it repeat with --trust-plugins (in Python trust_plugins=True)"
        )


NAMED = Trust(everything=True, named=True)
"""For a scenario that the user names."""


def note_executed(digest: str) -> None:
    """Notes that a plugin file of this content was executed for a scenario that the user named.

    A cache that cannot be written remembers nothing.
    """
    if (root := cache_root()) is not None and not _was_executed(digest):
        with suppress(OSError):
            (root / REMEMBERED).mkdir(parents=True, exist_ok=True)
            os.close(os.open(root / REMEMBERED / digest, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def _was_executed(digest: str) -> bool:
    """Whether this user has noted it: in a cache that several share, others' notes do not count."""
    if (root := cache_root()) is None:
        return False
    try:
        return os.lstat(root / REMEMBERED / digest).st_uid == os.geteuid()
    except OSError:
        return False


def load(path: Path, trust: Trust = NAMED) -> str:
    """Executes a plugin file, unless one of the same content has been executed; the name of its module.

    Raises:
        ValueError: it cannot be read, may not be executed, fails, or registers a name that somebody else has; one line
            that says where.
    """
    try:
        with open_regular(path) as file:
            text = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    if len(text) > LARGEST_BYTES:
        raise ValueError(f"is longer than {LARGEST_BYTES:,} bytes")
    digest = sha256(text).hexdigest()
    if PREFIX + digest not in sys.modules:
        trust.check(path, digest)
        _execute(text, PREFIX + digest, path)
    if trust.named:
        note_executed(digest)
    return PREFIX + digest


def _execute(text: bytes, name: str, path: Path) -> None:
    where = os.path.realpath(path)
    spec = spec_of(name, text, where)
    assert spec.loader is not None
    module = module_from_spec(spec)
    module.__file__ = where
    sys.modules[name] = module
    broken()  # installed packages are loaded before, so that a file that fails takes none of their plugins with it
    with undone() as keep:
        try:
            spec.loader.exec_module(module)
            for cls in [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]:
                refuse_misfits(cls, object, cls.__name__)
            keep()
        except KeyboardInterrupt:
            sys.modules.pop(name)
            raise
        except BaseException as error:  # somebody else's file may do anything, also end the interpreter
            sys.modules.pop(name)
            raise ValueError(_failure(error, where, path)) from error


def load_all(document: Document, folder: Path, further: Iterable[Path], trust: Trust = NAMED) -> None:
    """Executes the plugin files that a scenario's data name under ``plugins``.

    Args:
        document: the scenario as read; ``further`` files are added to its ``plugins``.
        folder: what they are relative to.
        further: as seen from the working directory.
        trust: which of them may be executed.

    Raises:
        InvalidScenario: a file cannot be read, may not be executed, or fails; nothing else can be said while names are
            missing.
    """
    data = document.value
    if not isinstance(data, dict):
        return
    named = data.get("plugins")
    of_text = len(named or ()) if isinstance(named, list) else 0
    if named is None or isinstance(named, list):
        known = {os.path.realpath(data_files.find(name, folder)) for name in named or () if isinstance(name, str)}
        new = dict.fromkeys(path for each in further if (path := os.path.realpath(each)) not in known)
        added = [os.path.relpath(path, os.path.realpath(folder)) for path in new]
        data |= {"plugins": [*(named or ()), *added]} if named or added else {}
        named = data.get("plugins")
    problems = []
    for i, name in enumerate(named if isinstance(named, list) else ()):
        if isinstance(name, str) and name.endswith(".py"):  # the others are refused when the scenario is validated
            try:
                load(data_files.find(name, folder), trust)
            except ValueError as error:
                place, key = document.places.of(("plugins", i)), f"plugins.{i}"
                place, key = (place, key) if i < of_text else (Place("--plugin"), "")
                problems.append(Problem(place, key, f"{shown(name)} {error}"))
    if problems:
        raise InvalidScenario([*document.problems, *problems])


def _failure(error: BaseException, where: str, path: Path) -> str:
    said = raised_at(error, where).replace(where, str(path))
    if where in plugin_file_paths() and "is registered already" in said:
        said += "; the file has changed since it was loaded: start Python anew"
    return f"does not load: {said}"


def executed_digests() -> frozenset[str]:
    """SHA-256, hexadecimal, of the contents of all plugin files that this process has executed."""
    return frozenset(name.removeprefix(PREFIX) for name in list(sys.modules) if name.startswith(PREFIX))


def is_plugin_file(cls: type) -> bool:
    """Whether a class was registered by a plugin file."""
    return cls.__module__.startswith(PREFIX)
