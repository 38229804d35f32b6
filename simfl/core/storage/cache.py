"""Decoded data sets on disk: one folder of .npy files a data set, keyed by what it was decoded from.

The arrays are mapped into memory, so that the processes of a sweep share one copy. ``complete`` names them with their
SHA-256; an entry is believed only where all of them match.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.storage.disk import cache_root, sha256

Arrays = dict[str, NDArray[Any]]


_bypass: ContextVar[bool] = ContextVar("simfl_bypass_cache", default=False)


@contextmanager
def bypass_cache() -> Iterator[None]:
    """Inside, everything is decoded anew, and nothing is kept."""
    token = _bypass.set(True)
    try:
        yield
    finally:
        _bypass.reset(token)


def load_cached(recipe: str, sources: Sequence[Path], decode: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``decode`` makes of the source files, decoded at most once.

    Args:
        recipe: name and version of the decoding; part of the key.
        sources: files whose content is part of the key.
        decode: makes the arrays, name -> array.

    An entry that is damaged, or a cache that cannot be written, costs time and nothing else.
    """
    root = cache_root()
    if root is None or _bypass.get():
        return decode()
    entry = root / f"{recipe.split()[0]}-{_key(recipe, sources)}"
    if (arrays := _read(entry)) is not None:
        return arrays
    arrays = decode()
    try:
        _write(entry, arrays)
    except OSError:
        return arrays
    return _read(entry) or arrays


def _key(recipe: str, sources: Sequence[Path]) -> str:
    digest = blake2b(recipe.encode(), digest_size=16)
    for source in sources:
        with open(source, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        digest.update(b"|")
    return digest.hexdigest()


def _read(entry: Path) -> Arrays | None:
    try:
        digests = json.loads((entry / "complete").read_bytes())
        if any(sha256(entry / f"{name}.npy") != digest for name, digest in digests.items()):
            return None
        # mode "c": pages are shared until written to, and torch takes only writable arrays
        return {name: np.load(entry / f"{name}.npy", mmap_mode="c", allow_pickle=False) for name in digests}
    except (OSError, ValueError, EOFError, AttributeError):
        return None


def _write(entry: Path, arrays: Arrays) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=entry.parent))
    try:
        for name, array in arrays.items():
            np.save(scratch / f"{name}.npy", array, allow_pickle=False)
        digests = {name: sha256(scratch / f"{name}.npy") for name in arrays}
        (scratch / "complete").write_text(json.dumps(digests))
        if entry.exists():  # damaged, or another process was faster
            shutil.rmtree(entry, ignore_errors=True)
        os.replace(scratch, entry)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
