"""How large a data file may be.

Sizes are read from headers, or counted while text is inflated, before anything is kept.
"""

from pathlib import Path

from simfl.core.errors import ScenarioError
from simfl.core.storage.text_table import open_bytes
from simfl.learning.capacity import gib, refuse_too_large
from simfl.learning.data.image_arrays import REGRESSION, broken

MAX_VALUES = 2**32
"""Numbers in a data set's samples: 16 GiB as float32."""

MAX_TEXT = 2**30
"""Bytes of a CSV file, inflated."""

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


def check_classes(classes: int, what: object, rows: int = 0, otherwise: str = "") -> None:
    """Refuses a label that is a number rather than a class.

    Args:
        classes: different labels.
        what: where they stand.
        rows: samples, where nobody says that the labels are classes.
        otherwise: how to say so.

    Raises:
        ScenarioError: there are more than 100,000 classes, or more than 10 and a tenth of the rows.
    """
    if classes > MAX_CLASSES:
        raise broken(what, f"has {classes:,} classes (labels count from 0); at most {MAX_CLASSES:,} are taken")
    if rows and classes > max(rows / 10, 10):
        why = f"has {classes:,} different labels in {rows:,} rows, more than a tenth"
        raise broken(what, f"{why}; {REGRESSION}, or if they are classes {otherwise}")


def check_text(path: Path) -> None:
    """Refuses a text table that is too large, after its inflated bytes were counted.

    Raises:
        ScenarioError: there are too many bytes.
        OSError, EOFError: it cannot be read.
    """
    size = feeds = returns = 0
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            size, feeds, returns = size + len(block), feeds + block.count(b"\n"), returns + block.count(b"\r")
            if size > MAX_TEXT:
                raise broken(path, f"holds more than {gib(MAX_TEXT)} of text; store larger data as .npz")
    rows = max(feeds, returns)
    needed = BYTES_PER_CHARACTER * size + BYTES_PER_ROW * rows
    refuse_too_large(needed, "", f"{path}: {gib(size)} of text in {rows:,} lines")
