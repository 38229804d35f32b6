"""Checkpoints: named arrays in one file that begins with its own SHA-256; the newest two are kept.

No pickle: arrays are read with ``allow_pickle=False`` and only after the digest matched.
"""

import io
import json
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import make_folder, write_atomically
from simfl.core.types import Arrays
from simfl.results.sealed_files import read_sealed_bytes, seal_bytes

KEPT = 2


def save(folder: Path, round: int, arrays: Arrays, marks: dict[str, tuple[int, str]]) -> None:
    """Writes the checkpoint of a boundary after ``round`` rounds into a ``checkpoint/`` folder, whole or not at all.

    ``arrays`` are the server's state, ``marks`` (bytes, SHA-256) of every table at this moment.
    """
    make_folder(folder, folder.parent)
    write_atomically(folder / f"{round:010d}.ckpt", content(arrays, marks))
    for old in checkpoint_files(folder)[KEPT:]:
        old.unlink()


def content(arrays: Arrays, marks: dict[str, tuple[int, str]]) -> bytes:
    """A checkpoint as a file."""
    buffer = io.BytesIO()
    named: JsonObject = {f"state/{key}": value for key, value in arrays.items()}
    np.savez(buffer, **named, marks=np.array(json.dumps(marks)))
    return seal_bytes(buffer.getvalue())


def load(path: Path) -> tuple[Arrays, dict[str, tuple[int, str]]]:
    """The arrays and table marks of a checkpoint.

    Raises:
        IntegrityError: the file is damaged.
    """
    data = read_sealed_bytes(path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            marks = {name: (size, sha) for name, (size, sha) in json.loads(str(file["marks"])).items()}
            return {key[len("state/") :]: file[key] for key in file.files if key != "marks"}, marks
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile):
        raise IntegrityError(f"{path}: no checkpoint, although its SHA-256 matches") from None


def checkpoint_files(folder: Path) -> list[Path]:
    """Checkpoint files, newest first."""
    return sorted(folder.glob("*.ckpt"), reverse=True)
