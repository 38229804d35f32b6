"""A scenario's text before it is YAML: its size, its encoding, its characters."""

import re
from pathlib import Path

from simfl.errors import nearest

__all__ = ["FORBIDDEN", "MAX_BYTES", "decode", "tab_before", "unreadable"]

MAX_BYTES = 1_000_000

FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that YAML does not allow."""


def decode(data: bytes) -> str:
    """The text of a UTF-8 file.

    Raises:
        ValueError: too long or not UTF-8.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8 text (byte 0x{data[error.start]:02x})") from None


def tab_before(text: str, line: int, column: int) -> bool:
    """Whether a tab stands in the line (from 0) up to the column (from 0)."""
    lines = text.split("\n")
    return line < len(lines) and "\t" in lines[line][: column + 1]


def unreadable(path: Path, error: Exception) -> str:
    """Why a scenario file cannot be read, with the file that may have been meant."""
    if not isinstance(error, OSError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        folder = path.parent
        others = [item.name for item in folder.iterdir() if item.suffix in (".yaml", ".yml")] if folder.is_dir() else []
        near = nearest(path.name, sorted(others))
        return "no such file" + (f"; did you mean {str(folder / near)!r}?" if near else "")
    return f"cannot be read: {error.strerror or error}"
