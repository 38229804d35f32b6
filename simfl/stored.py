"""A finished run's folder. Nothing in it is believed before it has been checked.

``summary.json`` holds in ``sha256`` the digest of every other file of the results, and its own: that of the document
without that entry. ``machine.json`` alone is left out; it may differ between reruns.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Any

from simfl.disk import sha256
from simfl.errors import IntegrityError, SimflError
from simfl.trace import VECTORS

__all__ = [
    "ACCURACIES",
    "CLIENTS",
    "JOINED",
    "FINDINGS",
    "LATENCY",
    "MACHINE",
    "OWN",
    "PRIVACY",
    "SCENARIO",
    "SUMMARY",
    "Stored",
    "UPDATES",
    "VECTORS_OF",
    "is_finished",
    "read_update",
    "refuse_own",
    "sealed",
]

SUMMARY, SCENARIO, CLIENTS, LATENCY = "summary.json", "scenario.yaml", "clients.csv", "latency.csv"
ACCURACIES, MACHINE, FINDINGS = "accuracies.csv", "machine.json", "findings.json"
PRIVACY = "privacy.csv"
"""What accountants say of each client."""

UPDATES = "updates.csv"
"""What clients outside have sent: a row an update, which names the SHA-256 of its file."""

VECTORS_OF, JOINED = "updates", "joined"
"""Folders: of the files ``SHA-256.npy`` that updates.csv names; and of who has joined, while the run plays."""

OWN = (
    SCENARIO, CLIENTS, LATENCY, ACCURACIES, "rounds.csv", "participation.csv", "evaluation.csv", "jobs.csv",
    "phases.csv", "facts.csv", "attacks.csv", FINDINGS, PRIVACY, "aggregates.csv", VECTORS, "events.jsonl", UPDATES,
    "model.npy", "columns.json", MACHINE, "failed.json", SUMMARY,
)  # fmt: skip
"""Names of the files that a run may write; nothing else in its folder is its own."""

SWEEPS = (
    "sweep.yaml", "index.csv", "comparison.csv", "comparison.json", "paired.csv", "equal.csv", "equal_paired.csv",
    "beside_plain.csv",
)  # fmt: skip
"""Names of the files of sweeps and comparisons."""

NEVER = "only the client that sent it can send it again (simfl serve --force)"
AGAIN = "simfl run --force plays it again"


@dataclass(frozen=True)
class Stored:
    """A finished run on disk.

    Attributes:
        path: its folder.
        summary: the contents of ``summary.json``, sound.
    """

    path: Path
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: Path | str) -> "Stored":
        """
        Raises:
            SimflError: there is no finished run.
            IntegrityError: its summary is damaged.
        """
        path = Path(path)
        try:
            data = (path / SUMMARY).read_bytes()
        except OSError as error:
            raise SimflError(f"{path}: no finished run here ({SUMMARY}: {error.strerror})") from None
        return cls(path, _sound(data, path / SUMMARY))

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 of each file of the results but the summary, by name."""
        return {name: digest for name, digest in self.summary["sha256"].items() if name != SUMMARY}

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def file(self, name: str) -> Path:
        """The path of a file that is what the run wrote.

        Raises:
            SimflError: the run wrote no such file.
            IntegrityError: it is damaged, or gone.
        """
        path = self.path / name
        if name not in self:
            raise SimflError(f"{path}: the run wrote no such file")
        try:
            found = sha256(path)
        except OSError as error:
            raise IntegrityError(f"{path}: cannot be read ({error.strerror}); {AGAIN}") from None
        if found != self.files[name]:
            raise IntegrityError(f"{path}: damaged (its SHA-256 is not the one in {SUMMARY}); {AGAIN}")
        return path

    @property
    def origins(self) -> dict[str, str]:
        """What the run was made of besides its scenario, see :attr:`simfl.scenario.Scenario.origins`, as far as its
        ``machine.json`` tells: no results, and not checked.
        """
        try:
            found = json.loads((self.path / MACHINE).read_bytes())["origins"]
            return {str(what): str(content) for what, content in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def check(self) -> None:
        """
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


def refuse_own(*targets: Path) -> None:
    """Before a figure, a page or a trace is written somewhere.

    Raises:
        SimflError: a target is a file of results themselves.
    """
    for path in targets:
        results = any((path.parent / name).exists() for name in (SCENARIO, SUMMARY, "sweep.yaml"))
        if results and path.name in (*OWN, *SWEEPS):
            raise SimflError(f"{path}: holds results; choose another name")


def sealed(document: Mapping[str, Any], files: Mapping[str, str]) -> tuple[dict[str, Any], bytes]:
    """A summary with the digests of all files and its own, and the bytes of ``summary.json``.

    Args:
        document: the values.
        files: SHA-256 of each file by name.
    """
    made = {**document, "sha256": dict(sorted(files.items()))}
    made["sha256"][SUMMARY] = sha256_of(_encoded(made)).hexdigest()
    return made, _encoded(made)


def _sound(data: bytes, path: Path) -> dict[str, Any]:
    damaged = IntegrityError(f"{path}: damaged (it does not match its own SHA-256); {AGAIN}")
    try:
        found = json.loads(data)
        files = dict(found["sha256"])
        own = files.pop(SUMMARY)
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
