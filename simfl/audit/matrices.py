"""Logs as arrays: one row a round, one column a client."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.log import Limits, Log, sparse
from simfl.core.errors import SimflError
from simfl.privacy.multiround.weight_reading import LARGEST


def array(path: Path) -> Log:
    """Reads an NPY or NPZ file (one array, or what ``scipy.sparse.save_npz`` writes).

    Raises:
        SimflError: it holds no participation matrix, or one too large.
    """
    try:
        array = _npy(path) if path.suffix.lower() == ".npy" else _npz(path)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError, zlib.error) as error:
        problem = " ".join(str(error).split())[:200]
        raise SimflError(f"{path}: not an array that can be read: {problem}") from None
    if 0 in array.shape:
        raise SimflError(f"{path}: the log is empty")
    largest = LARGEST if array.dtype.kind in "iu" else np.inf  # a double is what it is
    if hasattr(array, "tocsr"):
        small = array.shape[0] * array.shape[1] < 10**6
        check_weights(array.toarray() if small else array.data, path, largest=largest)
        return Log(array, range(array.shape[0]), range(array.shape[1]))
    check_weights(array, path, largest=largest)
    rounds, clients = np.nonzero(array)
    weights = array[rounds, clients]
    weights = weights if weights.dtype.kind == "f" else weights.astype(float)
    return Log(sparse(weights, rounds, clients, array.shape), range(array.shape[0]), range(array.shape[1]))


def _npy(path: Path) -> Any:
    array = np.load(path, allow_pickle=False, mmap_mode="r")  # the header first
    return np.array(_fitting(array, array.shape, path))


def _npz(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        inflated = sum(member.file_size for member in archive.infolist())
        if inflated > Limits.INFLATED:
            raise SimflError(f"{path}: {inflated} bytes when unpacked; at most {Limits.INFLATED} are read")
    with np.load(path, allow_pickle=False) as file:
        if "format" in file.files:
            from scipy.sparse import load_npz

            if "shape" in file.files:
                shape = tuple(int(n) for n in np.ravel(file["shape"]))
                if max(shape, default=0) > Limits.LABELS:
                    raise SimflError(f"{path}: {max(shape)} rounds or clients; at most {Limits.LABELS} are read")
            matrix = _fitting(load_npz(path), (), path).tocsr()
            matrix.check_format(full_check=True)
            return matrix
        if len(file.files) != 1:
            names = ", ".join(file.files[:20])
            raise SimflError(f"{path}: holds {len(file.files)} arrays ({names}); one is needed")
        return _fitting(file[file.files[0]], None, path)


def _fitting(array: Any, shape: tuple[int, ...] | None, path: Path) -> Any:
    """The array if it is a matrix of numbers with no more cells than are read; a sparse one has few anyway."""
    if array.ndim != 2:
        raise SimflError(f"{path}: a participation matrix has two dimensions (rounds, clients), not {array.ndim}")
    if array.dtype.kind not in "biuf":
        raise SimflError(f"{path}: participation weights must be real numbers, not {array.dtype}")
    if shape != () and np.prod(array.shape, dtype=float) > Limits.CELLS:
        raise SimflError(f"{path}: {array.shape[0]} x {array.shape[1]} cells; at most {Limits.CELLS} are read")
    return array


def check_weights(values: Any, path: Path, first: int = 0, largest: float = np.inf) -> Any:
    """Finite numbers from 0 to the largest valid one, or a message that names the first other one; rows count from
    ``first``.

    Raises:
        SimflError: there is another one.
    """
    for wrong, why in (
        (~np.isfinite(values) | (values < 0), "is not a finite number of at least 0"),
        (values > largest, f"is too large; the largest valid one is {largest}"),
    ):
        if wrong.any():
            place = np.argwhere(wrong)[0]
            where = f"round {first + place[0]}, client {place[1]}" if len(place) == 2 else "an entry"
            raise SimflError(f"{path}: {where}: weight {values[tuple(place)]:g} {why}")
    return values
