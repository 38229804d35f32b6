"""Which simfl this is."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
