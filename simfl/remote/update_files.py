"""Updates as remote clients send them: the bytes of an .npy file, of which nothing is believed."""

import io

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from simfl.core.http.handler import RequestError

HEADER_BYTES = 4096
"""What an .npy file may have besides its numbers."""


def parse_update(data: bytes, dimension: int) -> NDArray[np.float32]:
    """
    Raises:
        RequestError: the data are no .npy file of this many finite float32 numbers.
    """
    file = io.BytesIO(data)
    try:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
        shape, _, dtype = read(file)
    except Exception:  # whatever hostile bytes make numpy raise
        raise RequestError(422, "not an .npy file") from None
    if dtype != np.dtype("<f4") or shape != (dimension,):
        raise RequestError(422, f"an array of {dimension} float32 numbers is needed, got {dtype} {shape}"[:200])
    if len(rest := file.read()) != 4 * dimension:
        raise RequestError(422, f"{4 * dimension} bytes of numbers are needed, got {len(rest)}")
    update = np.frombuffer(rest, dtype="<f4")
    if not np.isfinite(update).all():
        raise RequestError(422, "it holds numbers that are not finite")
    return update
