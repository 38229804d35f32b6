"""A table of a run in progress: what of it is what the run wrote.

``NAME.seals.part`` says how far. Of rounds.csv and participation.csv, which are sealed after each round, rows of one
round at most stand behind the last seal, and no checkpoint reaches further than it; otherwise seals are missing:
somebody cut them off, or the machine lost power before they were on the disk, for only checkpoints wait for that.
"""

import re
from dataclasses import dataclass, field
from hashlib import sha256 as sha256_of
from pathlib import Path
from threading import Event
from typing import Any

from simfl.core.errors import IntegrityError
from simfl.core.storage.disk import LOOK_S, open_regular
from simfl.results import checkpoint
from simfl.results.file_names import is_finished
from simfl.results.folder import LOOKS
from simfl.results.tables import SEALS

LINE_BYTES = 18 + 1 + 64 + 1
"""Of a table's seal."""


@dataclass
class UnfinishedTable:
    """A table of a run in progress, as far as its seals reach; looked at again and again, read once.

    Attributes:
        size: bytes from its beginning on that are what was written.
        began: how often it was read from its beginning.
    """

    folder: Path
    name: str
    size: int = 0
    began: int = 1
    _hash: Any = field(default_factory=sha256_of)

    @property
    def path(self) -> Path:
        """Where it lies; at the end of a run under its final name."""
        part = self.folder / f"{self.name}.part"
        return part if part.exists() else self.folder / self.name

    def look(self) -> bool:
        """Checks what has come since the last look; whether there is such a table.

        Raises:
            IntegrityError: it is not what was written.
        """
        for _ in range(LOOKS):
            size_on_disk, seal = self._size_on_disk(), self._seal()  # in this order: later seals reach further
            if seal is None and not self.path.exists():
                return False
            if seal is not None and self._fits(*seal) and self._is_last(seal[0], size_on_disk):
                return True
            self.size, self.began, self._hash = 0, self.began + 1, sha256_of()
            Event().wait(LOOK_S)
            if self._seal() == seal:  # else the run has just been taken up again
                break
        if is_finished(self.folder):
            return False
        raise IntegrityError(
            f"{self.path}: damaged (it does not match {self.name}{SEALS}; so it is, too, where the machine lost "
            "power or simfl was older); the same command goes on if enough is left"
        )

    def _seal(self) -> tuple[int, str] | None:
        """Bytes and SHA-256 of the last whole line of the seals; None where there is none."""
        try:
            with open_regular(self.folder / f"{self.name}{SEALS}") as file:
                file.seek(max(0, file.seek(0, 2) - 4 * LINE_BYTES))
                data = file.read(4 * LINE_BYTES)
        except OSError:
            return None
        lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
        if not lines:
            return None if self._size_on_disk() else (0, sha256_of().hexdigest())
        seal = re.fullmatch(rb"([0-9]{1,18}) ([0-9a-f]{64})", lines[-1])
        return (int(seal[1]), seal[2].decode()) if seal else None

    def _size_on_disk(self) -> int:
        """Bytes of the table, sealed or not."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _is_last(self, size: int, size_on_disk: int) -> bool:
        """Whether the seal of so many bytes can be the last that was written."""
        if size_on_disk <= size:
            return True
        if self.path.name == self.name:  # it has its final name, hence was sealed whole
            return False
        try:
            with open_regular(self.path) as file:
                file.seek(size)
                rows = file.read(size_on_disk - size).splitlines(keepends=True)
        except OSError:
            return False
        rounds = {row.partition(b",")[0] for row in rows if row.endswith(b"\n")}
        return len(rounds) <= 1 and size >= self._checkpoint_size()

    def _checkpoint_size(self) -> int:
        """Bytes of the table at the newest sound checkpoint; 0 where there is none."""
        for path in checkpoint.checkpoint_files(self.folder / "checkpoint"):
            try:
                return checkpoint.load(path)[1].get(self.name, (0, ""))[0]
            except (IntegrityError, OSError):  # damaged, or removed meanwhile
                continue
        return 0

    def _fits(self, size: int, digest: str) -> bool:
        if size < self.size:
            return False
        left = size - self.size
        try:
            with open_regular(self.path) as file:
                file.seek(self.size)
                while left and (block := file.read(min(left, 1 << 20))):
                    self._hash.update(block)
                    left -= len(block)
        except OSError:
            return size == 0
        self.size = size
        return not left and self._hash.hexdigest() == digest
