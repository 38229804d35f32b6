"""Parts of a server's state under one roof: named arrays, ``part/name``."""

from simfl.core.types import Arrays

__all__ = ["Arrays", "prefix_arrays", "under"]


def prefix_arrays(part: str, arrays: Arrays) -> Arrays:
    """The arrays under ``part/``."""
    return {f"{part}/{name}": value for name, value in arrays.items()}


def under(part: str, arrays: Arrays) -> Arrays:
    """What :func:`prefix_arrays` was given."""
    return {name[len(part) + 1 :]: value for name, value in arrays.items() if name.startswith(part + "/")}
