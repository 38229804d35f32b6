"""A folder of results. Nothing in it is believed before it has been checked.

``summary.json`` holds in ``sha256`` the digest of every other file of the results, and its own: that of the document
without that entry. ``machine.json`` alone is left out; it may differ between reruns, and holds its own digest alone.

A run that still plays, a sweep and a comparison are read in the same way. ``begun.json`` holds the digests of what a
run writes before its first round; ``NAME.seals.part`` a line for each time that a table was handed to the operating
system, its bytes then and their SHA-256; ``contents.json`` the digests of a sweep's files. Small files that stand
alone (``failed.json``, ``joined/CLIENT.json``) hold their own digest as the summary does.
"""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256 as sha256_of
from pathlib import Path
from threading import Event
from typing import Any

from simfl.columns import FILE as COLUMNS
from simfl.columns import Column, described
from simfl.disk import LOOK_S, sha256, write_atomically
from simfl.errors import IntegrityError, SimflError
from simfl.trace import SEALS, VECTORS

__all__ = [
    "ACCURACIES",
    "BEGUN",
    "CLIENTS",
    "CONTENTS",
    "FAILURE",
    "JOINED",
    "FINDINGS",
    "LATENCY",
    "MACHINE",
    "OWN",
    "PRIVACY",
    "Part",
    "SCENARIO",
    "SUMMARY",
    "Stored",
    "UPDATES",
    "VECTORS_OF",
    "is_finished",
    "is_swept",
    "read_sealed",
    "read_update",
    "refuse_own",
    "sealed",
    "write_contents",
    "write_sealed",
]

SUMMARY, SCENARIO, CLIENTS, LATENCY = "summary.json", "scenario.yaml", "clients.csv", "latency.csv"
ACCURACIES, MACHINE, FINDINGS = "accuracies.csv", "machine.json", "findings.json"
BEGUN, CONTENTS, FAILURE = "begun.json", "contents.json", "failed.json"
"""What a run that still plays began with; the files of a sweep or comparison; why a run failed."""

PRIVACY = "privacy.csv"
"""What accountants say of each client."""

UPDATES = "updates.csv"
"""What clients outside have sent: a row an update, which names the SHA-256 of its file."""

VECTORS_OF, JOINED = "updates", "joined"
"""Folders: of the files ``SHA-256.npy`` that updates.csv names; and of who has joined, while the run plays."""

OWN = (
    SCENARIO, CLIENTS, LATENCY, ACCURACIES, "rounds.csv", "participation.csv", "evaluation.csv", "jobs.csv",
    "phases.csv", "facts.csv", "attacks.csv", FINDINGS, PRIVACY, "aggregates.csv", VECTORS, "events.jsonl", UPDATES,
    "model.npy", "columns.json", MACHINE, BEGUN, FAILURE, SUMMARY,
)  # fmt: skip
"""Names of the files that a run may write; nothing else in its folder is its own."""

SWEEPS = (
    CONTENTS, "sweep.yaml", "index.csv", "comparison.csv", "comparison.json", "paired.csv", "equal.csv",
    "equal_paired.csv", "beside_plain.csv",
)  # fmt: skip
"""Names of the files of sweeps and comparisons."""

NEVER = "only the client that sent it can send it again (simfl serve --force)"
AGAIN = "simfl run --force plays it again"
GOES_ON = "the command that began it writes it anew"
AGAIN_BY = {SUMMARY: AGAIN}

MOST_BYTES = 1 << 20
"""Of a small file that holds its own digest."""

LINE_BYTES = 18 + 1 + 64 + 1
"""Of a table's seal."""

LOOKS = 5
"""A file that does not fit its digest is read so often while the digests change: somebody is writing both."""


@dataclass(frozen=True)
class Stored:
    """A folder of results, of which nothing is handed out unchecked: of a finished run, a run that plays, a sweep.

    Attributes:
        path: the folder.
        summary: the contents of the document that holds the digests, sound.
        seal: the document's name.
    """

    path: Path
    summary: dict[str, Any]
    seal: str = SUMMARY

    @classmethod
    def open(cls, path: Path | str) -> "Stored":
        """
        Raises:
            SimflError: there is no finished run.
            IntegrityError: its summary is damaged.
        """
        return cls._read(Path(path), SUMMARY, "no finished run here")

    @classmethod
    def begun(cls, path: Path) -> "Stored":
        """What a run that is not finished began with.

        Raises:
            SimflError: no run has begun.
            IntegrityError: what it began with is damaged.
        """
        if (path / SCENARIO).exists() and not (path / BEGUN).exists():
            raise IntegrityError(f"{path / BEGUN}: gone, or the run is of an older simfl; {GOES_ON}")
        return cls._read(path, BEGUN, "no run has begun here")

    @classmethod
    def swept(cls, path: Path) -> "Stored":
        """The files of a sweep or comparison.

        Raises:
            SimflError: there is none.
            IntegrityError: they are damaged, or of an older simfl that did not seal them.
        """
        if is_swept(path) and not (path / CONTENTS).exists():
            raise IntegrityError(f"{path / CONTENTS}: gone, or the sweep is of an older simfl; {GOES_ON}")
        return cls._read(path, CONTENTS, "no sweep or comparison here")

    @classmethod
    def _read(cls, path: Path, seal: str, none: str) -> "Stored":
        try:
            data = (path / seal).read_bytes()
        except OSError as error:
            raise SimflError(f"{path}: {none} ({seal}: {error.strerror})") from None
        return cls(path, _sound(data, path / seal), seal)

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
                found = sha256(path)
            except OSError as error:
                raise IntegrityError(f"{path}: cannot be read ({error.strerror}); {again}") from None
            if found in known.files.get(name, "").split():
                return path
            newer = self._read(self.path, self.seal, "gone")
            if newer == known:
                break
            known = newer
        raise IntegrityError(f"{path}: damaged (its SHA-256 is not the one in {self.seal}); {again}")

    def read(self, name: str) -> bytes:
        """The content of a file; arguments and errors as of :meth:`file`."""
        return self.file(name).read_bytes()

    @property
    def origins(self) -> dict[str, str]:
        """What the run was made of besides its scenario, see :attr:`simfl.scenario.Scenario.origins`, as far as its
        ``machine.json`` tells; nothing where it does not fit its own digest.
        """
        try:
            found = (read_sealed(self.path / MACHINE) or {}).get("origins", {})
        except IntegrityError:
            return {}
        return {str(what): str(content) for what, content in found.items()}

    def columns(self) -> dict[str, Column]:
        """Every column that the run may have, by name.

        Raises:
            IntegrityError: ``columns.json`` is damaged.
        """
        return described(self.read(COLUMNS) if COLUMNS in self else None)

    def check(self) -> None:
        """Looks at every file.

        Raises:
            IntegrityError: a file is damaged or gone.
        """
        for name in self.files:
            self.file(name)
        if UPDATES in self:
            with open(self.path / UPDATES, newline="") as file:
                for row in csv.DictReader(file):
                    read_update(self.path, row["update"])


def read_update(folder: Path, digest: str) -> bytes:
    """The .npy file of an update that a client outside has sent, by its SHA-256.

    Raises:
        IntegrityError: it is damaged or gone.
    """
    path = folder / VECTORS_OF / f"{digest}.npy"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error.strerror}); {NEVER}") from None
    if sha256_of(data).hexdigest() != digest:
        raise IntegrityError(f"{path}: damaged (its SHA-256 is not its name); {NEVER}")
    return data


def is_finished(path: Path) -> bool:
    """Whether a folder holds the results of a run, sound or not."""
    return (path / SUMMARY).exists()


def is_swept(path: Path) -> bool:
    """Whether a folder holds the files of a sweep or comparison, sound or not."""
    return any((path / name).exists() for name in SWEEPS)


def refuse_own(*targets: Path) -> None:
    """Before a figure, a page or a trace is written somewhere.

    Raises:
        SimflError: a target is a file of results themselves.
    """
    for path in targets:
        results = any((path.parent / name).exists() for name in (SCENARIO, SUMMARY, "sweep.yaml"))
        if results and path.name in (*OWN, *SWEEPS):
            raise SimflError(f"{path}: holds results; choose another name")


def sealed(document: Mapping[str, Any], files: Mapping[str, str], own: str = SUMMARY) -> tuple[dict[str, Any], bytes]:
    """A document with the digests of all files and its own, and the bytes of its file.

    Args:
        document: the values.
        files: SHA-256 of each file by name.
        own: name of the document's file.
    """
    made = {**document, "sha256": dict(sorted(files.items()))}
    made["sha256"][own] = sha256_of(_encoded(made)).hexdigest()
    return made, _encoded(made)


def write_sealed(path: Path, document: Mapping[str, Any], files: Mapping[str, str] | None = None) -> None:
    """Writes a JSON document with its own digest, whole or not at all."""
    write_atomically(path, sealed(document, files or {}, path.name)[1])


def read_sealed(path: Path) -> dict[str, Any] | None:
    """What :func:`write_sealed` wrote, without its digests; None where there is no such file.

    Raises:
        IntegrityError: it is something else now.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error.strerror})") from None
    found = _sound(data if len(data) <= MOST_BYTES else b"", path)
    return {key: value for key, value in found.items() if key != "sha256"}


def write_contents(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files of a sweep's folder, and their digests before and after: whenever a kill comes, all fits.

    Whoever calls it holds the folder's lock. Files that are not named stay as they are.
    """
    try:
        known = Stored.swept(folder).files
    except SimflError:
        known = {}
    digests = {name: sha256_of(data).hexdigest() for name, data in files.items()}
    before = {name: sha256(folder / name) for name in files if name in known and (folder / name).is_file()}
    either = {name: " ".join({digest: 0, before.get(name, digest): 0}) for name, digest in digests.items()}
    write_sealed(folder / CONTENTS, {}, known | either)
    for name, data in files.items():
        write_atomically(folder / name, data)
    write_sealed(folder / CONTENTS, {}, known | digests)


@dataclass
class Part:
    """A table of a run that still plays, as far as its seals reach; looked at again and again, read once.

    Args:
        folder: of the run.
        name: of the table, without ``.part``.

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
            seal = self._seal()
            if seal is None and not self.path.exists():
                return False
            if seal is not None and self._fits(*seal):
                return True
            self.size, self.began, self._hash = 0, self.began + 1, sha256_of()
            Event().wait(LOOK_S)
            if self._seal() == seal:  # else the run has just been taken up again
                break
        if is_finished(self.folder):
            return False
        raise IntegrityError(
            f"{self.path}: damaged (it does not match {self.name}{SEALS}, or that is of an older simfl)"
        )

    def _seal(self) -> tuple[int, str] | None:
        """Bytes and SHA-256 of the last whole line of the seals; None where there is none."""
        try:
            with open(self.folder / f"{self.name}{SEALS}", "rb") as file:
                file.seek(max(0, file.seek(0, 2) - 4 * LINE_BYTES))
                data = file.read(4 * LINE_BYTES)
        except OSError:
            return None
        lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
        if not lines:
            return None if self._begun() else (0, sha256_of().hexdigest())
        found = re.fullmatch(rb"([0-9]{1,18}) ([0-9a-f]{64})", lines[-1])
        return (int(found[1]), found[2].decode()) if found else None

    def _begun(self) -> bool:
        try:
            return self.path.stat().st_size > 0
        except OSError:
            return False

    def _fits(self, size: int, digest: str) -> bool:
        if size < self.size:
            return False
        left = size - self.size
        try:
            with open(self.path, "rb") as file:
                file.seek(self.size)
                while left and (block := file.read(min(left, 1 << 20))):
                    self._hash.update(block)
                    left -= len(block)
        except OSError:
            return size == 0
        self.size = size
        return not left and self._hash.hexdigest() == digest


def _sound(data: bytes, path: Path) -> dict[str, Any]:
    damaged = IntegrityError(
        f"{path}: damaged (it does not match its own SHA-256)" + (f"; {AGAIN}" if path.name == SUMMARY else "")
    )
    try:
        found = json.loads(data)
        files = dict(found["sha256"])
        own = files.pop(path.name)
        rest = {**found, "sha256": files}
        if data != _encoded(found) or sha256_of(_encoded(rest)).hexdigest() != own:
            raise damaged
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    if not all(isinstance(digest, str) and Path(name).name == name for name, digest in files.items()):
        raise damaged
    summary: dict[str, Any] = found
    return summary


def _encoded(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
