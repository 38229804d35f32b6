"""Whose code an unexpected error was raised in: a plugin's, if its file is on the way to where it was raised."""

from traceback import extract_tb

from simfl.packages import raised_at
from simfl.registry import FAMILIES

__all__ = ["blamed"]


def blamed(error: BaseException) -> str | None:
    """``plugin selection 'mine' failed: file:line: Type: message``, or None where only simfl's own code was at work."""
    files = {frame.filename for frame in extract_tb(error.__traceback__)}
    found: dict[str, list[str]] = {}
    for family, registry in FAMILIES.items():
        for name, cls in registry.items():
            if cls.__module__.partition(".")[0] != "simfl" and (file := _file(cls)) in files:
                found.setdefault(file, []).append(f"{family} '{name}'")
    for frame in reversed(extract_tb(error.__traceback__)):
        if frame.filename in found:
            which = " or ".join(found[frame.filename])
            return f"plugin {which} failed: {raised_at(error, frame.filename)}"
    return None


def _file(cls: type) -> str:
    """The file of a class's code, as tracebacks call it, also in notebooks; empty if it has no code of its own."""
    codes = (getattr(item, "__code__", None) for item in vars(cls).values())
    files = (code.co_filename for code in codes if code is not None)
    return next((file for file in files if not file.startswith("<")), "")
