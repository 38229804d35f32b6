"""The idx file format of MNIST, plain or gzipped (described on LeCun's MNIST page)."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.image_arrays import broken
from simfl.learning.data.limits import check_values

UNSIGNED_BYTE = 0x08


def idx_shape(path: Path, dimensions: int) -> tuple[int, ...]:
    """The shape that the header of an idx file with so many dimensions promises.

    Raises:
        ScenarioError: it is no such file, or promises more than can be read.
    """
    start = 4 + 4 * dimensions
    raw = _read(path, start)
    if len(raw) < start or raw[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise broken(path, f"is no idx file of unsigned bytes in {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", raw[4:])
    check_values(prod(shape), prod(shape), path)
    return shape


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The uint8 array of an idx file with so many dimensions.

    Raises:
        ScenarioError: it is no such file, or truncated.
    """
    shape, start = idx_shape(path, dimensions), 4 + 4 * dimensions
    raw = _read(path, start + prod(shape) + 1)
    if (size := len(raw) - start) != prod(shape):
        size_text = f"{size:,}" if size < prod(shape) else "more"
        raise broken(path, f"holds {size_text} bytes of data where its header promises {prod(shape):,}")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)


def _read(path: Path, most: int) -> bytes:
    """The first bytes of a file, at most so many, inflated where its name ends in .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            return file.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, f"cannot be read ({error})") from error
