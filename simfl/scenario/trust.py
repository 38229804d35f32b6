"""Which plugin files may be executed: those of a scenario that the user names, not those that results bring along.

A results folder may be somebody else's, and its ``scenario.yaml`` may name plugin files, which are code. Whatever
reads the scenario of a results folder therefore executes a plugin file only if the user says so
(``--trust-plugins``, ``trust_plugins=True``), or if a file of the same content has been executed before: in this
process, or by this user for a scenario that the user named himself. The latter is remembered by SHA-256, as an empty
file in ``plugins`` in the cache folder; without a cache nothing is remembered.
"""

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simfl.core.storage.disk import cache_root
from simfl.scenario.yaml.places import shown

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
