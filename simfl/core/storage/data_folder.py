"""Where optional real data lies: measured latencies, images, tables that simfl does not ship."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import MissingError
from simfl.core.storage.disk import cache_root, sha256

DATA_PATH, DATA_TREE, DATA_FOLDER = "simfl: data file", "simfl: data file or files", "simfl: data folder"
"""Mark the types of plugin fields that name a file or folder of the user."""

DataPath = Annotated[str, Field(min_length=1, max_length=4096), DATA_PATH]
"""The type of a plugin field that names a data file: beside the scenario file, or in the data folder.

Open it as ``scenario.file(self.path)``. The content counts in the scenario's digest, not the path.
"""

DataTree = Annotated[str, Field(min_length=1, max_length=4096), DATA_TREE]
"""The same of a field that may also name a folder of data files, all of which count."""

DataFolder = Annotated[str, Field(min_length=1, max_length=4096), DATA_FOLDER]
"""The type of a plugin field that says in which folder a known data set lies: no part of the digest."""

Arrays = dict[str, NDArray[Any]]

_bypass: ContextVar[bool] = ContextVar("simfl_bypass_cache", default=False)


def data_root() -> Path | None:
    """``$SIMFL_DATA``, else ``data`` or ``../shared/data`` by the checkout or working directory; None without."""
    if named := os.environ.get("SIMFL_DATA"):
        return Path(named) if Path(named).is_dir() else None
    checkout = Path(__file__).resolve().parents[3]
    for base in (Path.cwd(), checkout):
        for folder in (base / "data", base.parent / "shared" / "data"):
            if folder.is_dir():
                return folder
    return None


def data_places() -> str:
    """Where the data folder is looked for, in words."""
    named = os.environ.get("SIMFL_DATA")
    if named:
        return f"SIMFL_DATA={named}" + ("" if Path(named).is_dir() else ", which is no folder")
    return f"{data_root() or './data or ../shared/data'} (SIMFL_DATA, which would name another folder, is not set)"


def data_file(*names: str) -> Path:
    """The first of the named files that the data folder holds.

    Raises:
        MissingError: there is no data folder, or none of the files is in it.
    """
    root = data_root()
    for name in names:
        if root is not None and (root / name).is_file():  # a pipe or a device has no end
            return root / name
    raise MissingError(
        f"{' or '.join(names)} not found in {data_places()}: put it there, or name its folder in SIMFL_DATA"
    )


@contextmanager
def bypass_cache() -> Iterator[None]:
    """Inside, everything is decoded anew, and nothing is kept."""
    token = _bypass.set(True)
    try:
        yield
    finally:
        _bypass.reset(token)


def load_cached(recipe: str, sources: Sequence[Path], decode: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``decode`` makes of the source files, decoded at most once: one folder of .npy files each.

    They are mapped into memory, so that the processes of a sweep share one copy. ``complete`` names them with their
    SHA-256; an entry is believed only where all of them match.

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
