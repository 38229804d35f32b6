"""The idx file format of MNIST, plain or gzipped (described on LeCun's MNIST page)."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.images import broken

__all__ = ["read_idx"]

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The uint8 array of an idx file with so many dimensions.

    Raises:
        ScenarioError: it is no such file, or truncated.
    """
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, f"cannot be read ({error})") from error
    start = 4 + 4 * dimensions
    if len(raw) < start or raw[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise broken(path, f"is no idx file of unsigned bytes in {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", raw[4:start])
    if len(raw) - start != prod(shape):
        raise broken(path, f"holds {len(raw) - start:,} bytes of data where its header promises {prod(shape):,}")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
