"""How updates are coded to take fewer bytes on their way to the server."""

from simfl.compression.base import COMPRESSIONS, Compression

__all__ = ["COMPRESSIONS", "Compression"]
