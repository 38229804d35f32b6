"""How large a data file may be.

Sizes are read from headers, or counted while text is inflated, before anything is kept.
"""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from simfl.core.errors import ScenarioError
from simfl.learning.capacity import gib, refuse_too_large
from simfl.learning.data.image_arrays import broken

MAX_VALUES = 2**32
"""Numbers in a data set's samples: 16 GiB as float32."""

MAX_TEXT = 2**30
"""Bytes of a CSV file, inflated."""

MAX_LINE = 2**24
"""Bytes of a line of it."""

MAX_COLUMNS = 100_000
"""Columns of it."""

MAX_CATEGORIES = 10_000
"""Different texts of a column, each of which becomes a column of 0 and 1."""

MAX_CLASSES = 100_000

BYTES_PER_VALUE = 12
"""Samples are held as float32; scaling them needs float64 for a moment."""

BYTES_PER_CHARACTER, BYTES_PER_ROW = 12, 64
"""A cell of one digit and its comma become a float64 and copies of it; each row has a label and places in both parts.

Measured, with pandas 3: 77 to 98 bytes for rows of 4 characters, 111 for rows of 11.
"""

EXPANSION, HARMLESS = 100, 2**26
"""A compressed table may be so many times its file's size, and so many bytes in any case: real ones are 5 to 50."""

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def check_values(values: int, stored_bytes: int, what: object, key: str = "") -> None:
    """Refuses samples that are too many for any machine, or for this one.

    Args:
        values: numbers in all samples.
        stored_bytes: size of the arrays they are read into first.
        what: the file, or what is made without one.
        key: the scenario's key that asks for them.

    Raises:
        ScenarioError: they are too many.
    """
    if values > MAX_VALUES:
        raise ScenarioError(key, f"{what}: {values:,} numbers; at most {MAX_VALUES:,} (16 GiB) are taken")
    refuse_too_large(BYTES_PER_VALUE * values + stored_bytes, key, f"{what}: {values:,} numbers")


def check_classes(classes: int, what: object) -> None:
    """Refuses a label that is a number rather than a class.

    Raises:
        ScenarioError: there are more than 100,000 classes.
    """
    if classes > MAX_CLASSES:
        raise broken(what, f"has {classes:,} classes (labels count from 0); at most {MAX_CLASSES:,} are taken")


def decompress(path: Path) -> BinaryIO:
    """A text table's bytes, inflated where the name says how, after their number and their first line were looked at.

    Raises:
        ScenarioError: there are too many bytes or columns, or many times more of them than the file has.
        OSError, EOFError: it cannot be read.
    """
    first_line(path)
    size = feeds = returns = 0
    file_size = path.stat().st_size
    with _open(path) as file:
        while block := file.read(1 << 20):
            size, feeds, returns = size + len(block), feeds + block.count(b"\n"), returns + block.count(b"\r")
            if size > MAX_TEXT:
                raise broken(path, f"holds more than {gib(MAX_TEXT)} of text; store larger data as .npz")
            if size > max(EXPANSION * file_size, HARMLESS):
                why = f"of more than {EXPANSION} times its {file_size:,} bytes; if that is right, unpack it first"
                raise broken(path, f"is compressed text {why}")
    rows = max(feeds, returns)
    needed = BYTES_PER_CHARACTER * size + BYTES_PER_ROW * rows
    refuse_too_large(needed, "", f"{path}: {gib(size)} of text in {rows:,} lines")
    return _open(path)


def first_line(path: Path) -> bytes:
    """The line that names a table's columns.

    Raises:
        ScenarioError: it is too long.
        OSError, EOFError: it cannot be read.
    """
    with _open(path) as file:
        head = file.readline(MAX_LINE)
    if len(head) == MAX_LINE:
        raise broken(path, f"line 1 is longer than {MAX_LINE:,} bytes")
    if (columns := head.count(b",") + 1) > MAX_COLUMNS:
        raise broken(path, f"has {columns:,} columns; at most {MAX_COLUMNS:,} are taken")
    return head


def _open(path: Path) -> BinaryIO:
    return OPENERS.get(path.suffix, open)(path, "rb")
