"""Parts of a server's state under one roof: named arrays, ``part/name``."""

from simfl.types import Arrays

__all__ = ["Arrays", "prefixed", "under"]


def prefixed(part: str, arrays: Arrays) -> Arrays:
    """The arrays under ``part/``."""
    return {f"{part}/{name}": value for name, value in arrays.items()}


def under(part: str, arrays: Arrays) -> Arrays:
    """What :func:`prefixed` was given."""
    return {name[len(part) + 1 :]: value for name, value in arrays.items() if name.startswith(part + "/")}
