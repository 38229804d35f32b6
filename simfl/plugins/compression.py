"""Compressions: how updates are coded on their way to the server."""

from simfl.compression.base import (
    COMPRESSIONS,
    COORDINATES,
    LEVELS,
    Compression,
    ErrorFeedback,
    Share,
    at_most_dense,
    count_share,
)
from simfl.core.payload import VALUE_BYTES

__all__ = [
    "COMPRESSIONS", "COORDINATES", "LEVELS", "VALUE_BYTES", "Compression", "ErrorFeedback", "Share", "at_most_dense",
    "count_share",
]  # fmt: skip
