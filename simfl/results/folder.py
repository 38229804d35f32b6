"""A folder of results. Nothing in it is believed before it has been checked.

``summary.json`` holds in ``sha256`` the digest of every other file of the results, and its own: that of the document
without that entry. ``machine.json`` alone is left out; it may differ between reruns, and holds its own digest alone.

A run in progress, a sweep and a comparison are read in the same way. ``begun.json`` holds the digests of what a
run writes before its first round; ``NAME.seals.part`` a line for each time that a table was handed to the operating
system, its bytes then and their SHA-256; ``contents.json`` the digests of a sweep's files. Small files that stand
alone (``failed.json``, ``joined/CLIENT.json``) hold their own digest as the summary does, and that of the run.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256 as sha256_of
from pathlib import Path
from threading import Event
from typing import Any

from simfl.core.certificate_words import unite_columns
from simfl.core.column_files import FILE as COLUMNS
from simfl.core.column_files import columns_by_name
from simfl.core.columns import Column
from simfl.core.errors import IntegrityError, SimflError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import LOOK_S, open_regular, read_regular, sha256, write_atomically
from simfl.results import checkpoint
from simfl.results.file_names import (
    BEGUN,
    CONTENTS,
    GZ,
    MACHINE,
    SCENARIO,
    SUMMARY,
    UPDATES,
    UPDATES_FOLDER,
    is_finished,
    is_swept,
)
from simfl.results.sealed_files import AGAIN, check_seal, read_sealed, write_sealed
from simfl.results.tables import SEALS

NEVER = "only the client that sent it can send it again (simfl serve --force)"
GOES_ON = "the command that began it writes it anew"
AGAIN_BY = {SUMMARY: AGAIN}

MOST_BYTES_OF_SEAL = 64 * 2**20
"""Of a document that holds the digests of others."""

LOOKS = 5
"""A file that does not fit its digest is read so often while the digests change: somebody is writing both."""


def no_such_folder(path: Path) -> str:
    """Says that there is no such folder, and where it may be: results lie in ``results`` of the working directory."""
    near = Path("results") / path
    return "no such folder" + (f"; did you mean {str(near)!r}?" if not path.is_absolute() and near.is_dir() else "")


def no_results(path: Path, none: str) -> str:
    """Why a path is no folder of results, and which of its folders is one.

    Args:
        path: what was named.
        none: what to say where it is a folder.
    """
    if not path.exists():
        return no_such_folder(path)
    if not path.is_dir():
        return "is a file; name the folder of the results"
    inside = sorted(path.glob(f"*/{SUMMARY}")) or sorted(path.glob(f"*/*/{SUMMARY}"))
    return none + (f"; did you mean {str(inside[0].parent)!r}?" if inside else "")


@dataclass(frozen=True)
class ResultsFolder:
    """A folder of results, of which nothing is handed out unchecked: of a finished run, a run in progress, a sweep.

    ``summary`` is what the document that holds the digests says, ``seal`` its name.
    """

    path: Path
    summary: JsonObject
    seal: str = SUMMARY

    @classmethod
    def open(cls, path: Path | str) -> "ResultsFolder":
        """
        Raises:
            SimflError: there is no finished run.
            IntegrityError: its summary is damaged.
        """
        return cls._read(Path(path), SUMMARY, "no finished run here")

    @classmethod
    def open_begun(cls, path: Path) -> "ResultsFolder":
        """What a run that is not finished began with.

        Raises:
            SimflError: no run has begun.
            IntegrityError: what it began with is damaged.
        """
        if (path / SCENARIO).exists() and not (path / BEGUN).exists():
            raise IntegrityError(
                f"{path / BEGUN}: gone, or {SUMMARY} is, if the run was finished, or it is of an older simfl; {GOES_ON}"
            )
        return cls._read(path, BEGUN, "no run has begun here")

    @classmethod
    def open_sweep(cls, path: Path) -> "ResultsFolder":
        """The files of a sweep or comparison.

        Raises:
            SimflError: there is none.
            IntegrityError: they are damaged, or of an older simfl that did not seal them.
        """
        if is_swept(path) and not (path / CONTENTS).exists():
            raise IntegrityError(f"{path / CONTENTS}: gone, or the sweep is of an older simfl; {GOES_ON}")
        return cls._read(path, CONTENTS, "no sweep or comparison here")

    @classmethod
    def _read(cls, path: Path, seal: str, none: str) -> "ResultsFolder":
        try:
            data = read_regular(path / seal, MOST_BYTES_OF_SEAL)
        except OSError as error:
            raise SimflError(f"{path}: {no_results(path, f'{none} ({seal}: {error.strerror})')}") from None
        return cls(path, check_seal(data, path / seal), seal)

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 of each file of the results but the summary, by name."""
        return {name: digest for name, digest in self.summary["sha256"].items() if name != self.seal}

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def file(self, name: str) -> Path:
        """The path of a file that is what the run wrote.

        Raises:
            SimflError: the run wrote no such file.
            IntegrityError: it is damaged, or gone.
        """
        path, known = self.path / name, self
        again = AGAIN_BY.get(self.seal, GOES_ON)
        if name not in known:
            raise SimflError(f"{path}: the run wrote no such file")
        for _ in range(LOOKS):
            try:
                digest = sha256(path)
            except OSError as error:
                raise IntegrityError(f"{path}: cannot be read ({error.strerror}); {again}") from None
            if digest in known.files.get(name, "").split():
                return path
            newer = self._read(self.path, self.seal, "gone")
            if newer == known:
                break
            known = newer
        raise IntegrityError(f"{path}: damaged (its SHA-256 is not the one in {self.seal}); {again}")

    def table(self, name: str) -> str:
        """The name of a table that is compressed where it is large: ``clients.csv.gz`` or ``clients.csv``."""
        return name + GZ if name + GZ in self else name

    def read(self, name: str) -> bytes:
        """The content of a file; arguments and errors as of :meth:`file`."""
        return read_regular(self.file(name))

    @property
    def origins(self) -> dict[str, str]:
        """What the run was made of besides its scenario, see :attr:`simfl.scenario.Scenario.origins`, as far as its
        ``machine.json`` tells; nothing where it does not fit its own digest, or is of another run.
        """
        try:
            machine = read_sealed(self.path / MACHINE) or {}
        except IntegrityError:
            return {}
        if machine.get("digest", digest := self.summary["digest"]) != digest:
            return {}
        return {str(what): str(content) for what, content in machine.get("origins", {}).items()}

    def columns(self) -> dict[str, Column]:
        """Every column that the run may have, by name.

        Raises:
            IntegrityError: ``columns.json`` is damaged.
        """
        return columns_by_name(self.read(COLUMNS) if COLUMNS in self else None)

    def check(self) -> None:
        """Looks at every file.

        Raises:
            IntegrityError: a file is damaged or gone.
        """
        for name in self.files:
            self.file(name)
        if UPDATES in self:
            for row in csv.DictReader(self.read(UPDATES).decode().splitlines()):
                read_update(self.path, row["update"])


def read_update(folder: Path, digest: str) -> bytes:
    """The .npy file of a remote client's update, by its SHA-256.

    Raises:
        IntegrityError: it is damaged or gone.
    """
    path = folder / UPDATES_FOLDER / f"{digest}.npy"
    try:
        data = read_regular(path)
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error.strerror}); {NEVER}") from None
    if sha256_of(data).hexdigest() != digest:
        raise IntegrityError(f"{path}: damaged (its SHA-256 is not its name); {NEVER}")
    return data


def write_contents(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files of a sweep's folder, and their digests before and after: whenever a kill comes, all fits.

    Whoever calls it holds the folder's lock. Files that are not named stay as they are.
    """
    try:
        known = ResultsFolder.open_sweep(folder).files
    except SimflError:
        known = {}
    digests = {name: sha256_of(data).hexdigest() for name, data in files.items()}
    before = {name: sha256(folder / name) for name in files if name in known and (folder / name).is_file()}
    either = {name: " ".join({digest: 0, before.get(name, digest): 0}) for name, digest in digests.items()}
    write_sealed(folder / CONTENTS, {}, known | either)
    for name, data in files.items():
        write_atomically(folder / name, data)
    write_sealed(folder / CONTENTS, {}, known | digests)


def columns_of_runs(folders: Iterable[Path]) -> dict[str, Column]:
    """What the numbers of finished runs mean, by name; a certificate takes for granted what it does in any of them."""
    each = (ResultsFolder.open(folder).columns() for folder in folders if is_finished(folder))
    return unite_columns(column for columns in each for column in columns.values())


# -- A table of a run in progress: what of it is what the run wrote --------------------------------------------
# ``NAME.seals.part`` says how far. Of rounds.csv and participation.csv, which are sealed after each round, rows of one
# round at most stand behind the last seal, and no checkpoint reaches further than it; otherwise seals are missing:
# somebody cut them off, or the machine lost power before they were on the disk, for only checkpoints wait for that.

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
            "power or simfl was older); the same command continues if enough is left"
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
