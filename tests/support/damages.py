"""Random damage to files, as disks, editors and people do it; and what somebody does who knows how."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path

import numpy as np

from simfl.core.storage.disk import sha256
from simfl.results.file_names import BEGUN, CONTENTS
from simfl.results.sealed_files import seal_document, write_sealed
from simfl.results.tables import SEALS

KINDS = ("flip", "cut", "grow", "empty", "remove", "digit", "drop", "twice", "swap")


def damaged(folder: Path, other: Path, rng: np.random.Generator) -> tuple[Path, str] | None:
    """Damages one random file of a folder; which and how, or None if chance changed nothing.

    Args:
        folder: whose file is damaged.
        other: a folder of the same kind, from which a file may be taken instead.
        rng: decides.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".lock"))
    path = files[rng.integers(len(files))]
    kind = str(rng.choice(KINDS))
    before = path.read_bytes()
    if kind == "remove":
        path.unlink()
        return path, kind
    if kind == "swap":
        twin = other / path.relative_to(folder)
        after = twin.read_bytes() if twin.exists() else b""
    else:
        after = _changed(before, kind, rng)
    path.write_bytes(after)
    return (path, kind) if after != before else None


def _changed(data: bytes, kind: str, rng: np.random.Generator) -> bytes:
    if kind == "empty" or not data:
        return b"" if data else b"\n"
    place = int(rng.integers(len(data)))
    if kind == "flip":
        return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]
    if kind == "cut":
        return data[:place]
    if kind == "grow":
        return data + data[place:]
    if kind == "digit":
        digits = [i for i, byte in enumerate(data[:100_000]) if 48 <= byte <= 57]
        if not digits:
            return data[:place] + b"7" + data[place:]
        at = digits[int(rng.integers(len(digits)))]
        return data[:at] + bytes([48 + (data[at] - 48 + int(rng.integers(1, 10))) % 10]) + data[at + 1 :]
    lines = data.splitlines(keepends=True)
    at = int(rng.integers(len(lines)))
    return b"".join([*lines[:at], *(() if kind == "drop" else (lines[at], lines[at])), *lines[at + 1 :]])


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder, in the place of an earlier one."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to


def reseal(folder: Path, *added: str, without: Collection[str] = (), **values: object) -> None:
    """Makes a changed run's folder consistent again.

    Args:
        folder: of the run.
        added: files that the summary does not name yet.
        without: files that it is to name no longer.
        values: new final values.
    """
    document = json.loads((folder / "summary.json").read_bytes()) | values
    names = {*document.pop("sha256"), *added} - {"summary.json", *without}
    (folder / "summary.json").write_bytes(seal_document(document, {name: sha256(folder / name) for name in names})[1])


def unfinish(folder: Path, rows: int, more: str = "") -> Path:
    """Makes a finished run's folder that of a run which has played some rounds, with its seals.

    Args:
        folder: of the run.
        rows: of ``rounds.csv`` that are there.
        more: what is written of the next row.
    """
    (folder / "summary.json").unlink()
    begun = ("scenario.yaml", "clients.csv", "latency.csv")
    seal_begun(folder, *(name for name in begun if (folder / name).exists()))
    lines = (folder / "rounds.csv").read_text().splitlines(keepends=True)
    (folder / "rounds.csv").unlink()
    growing(folder, "rounds.csv", "".join(lines[: rows + 1]), more)
    whole = (folder / "participation.csv").read_text()
    (folder / "participation.csv").unlink()
    growing(folder, "participation.csv", whole)
    return folder


def seal_begun(folder: Path, *names: str) -> None:
    """Seals what a run writes before its first round."""
    write_sealed(folder / BEGUN, {"digest": folder.name}, {name: sha256(folder / name) for name in names})


def growing(folder: Path, name: str, text: str, more: str = "") -> None:
    """Writes a table of a run that plays, sealed, and after it what is not sealed yet."""
    part = folder / f"{name}.part"
    part.write_text(text)
    (folder / f"{name}{SEALS}").write_text(f"{len(text.encode())} {sha256(part)}\n")
    with open(part, "a") as file:
        file.write(more)


def reseal_sweep(folder: Path) -> None:
    """Makes a changed sweep's folder consistent again; files that are gone are not named."""
    names = {path.name for path in folder.iterdir() if path.suffix in (".csv", ".yaml", ".json")} - {CONTENTS}
    write_sealed(folder / CONTENTS, {}, {name: sha256(folder / name) for name in names})
