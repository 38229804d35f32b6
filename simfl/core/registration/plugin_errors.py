"""Whose code an unexpected error was raised in: a plugin's, if its file is on the way to where it was raised."""

from traceback import extract_tb

from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.packages import raised_at


def plugin_failure(error: BaseException) -> str | None:
    """``plugin selection 'mine' failed: file:line: Type: message``, or None where only simfl's own code was at work."""
    files = {frame.filename for frame in extract_tb(error.__traceback__)}
    lacking = _file(type(error.obj)) if isinstance(error, AttributeError) and error.obj is not None else ""
    files.add(lacking)
    plugins_by_file: dict[str, list[str]] = {}
    for family, registry in FAMILIES.imported.items():
        for name, cls in registry.imported_plugins():
            if cls.__module__.partition(".")[0] != "simfl" and (file := _file(cls)) in files and file:
                plugins_by_file.setdefault(file, []).append(f"{family} '{name}'")
    for frame in reversed(extract_tb(error.__traceback__)):
        if frame.filename in plugins_by_file:
            which = " or ".join(plugins_by_file[frame.filename])
            return f"plugin {which} failed: {raised_at(error, frame.filename)}"
    if lacking in plugins_by_file:  # simfl asked an object of the plugin's for what it has not
        return f"plugin {' or '.join(plugins_by_file[lacking])} failed: {lacking}: {error}"
    return None


def _file(cls: type) -> str:
    """The file of a class's code, as tracebacks call it, also in notebooks; empty if it has no code of its own."""
    codes = (getattr(item, "__code__", None) for item in vars(cls).values())
    files = (code.co_filename for code in codes if code is not None)
    return next((file for file in files if not file.startswith("<")), "")
