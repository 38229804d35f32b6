"""Figures as files: the same bytes for the same results, and beside each the table it was drawn from."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError
from simfl.core.storage.disk import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

FORMATS = {
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
"""File formats, and the metadata that would make two drawings of the same figure differ."""

PNG_DPI = 300


def picture(fig: "Figure", format: str, dpi: int = PNG_DPI) -> bytes:
    """The figure as the bytes of a file; the same bytes under :func:`simfl.report.style.settings`."""
    file = io.BytesIO()
    fig.savefig(file, format=format, metadata=FORMATS[format], dpi=dpi)
    return file.getvalue()


def format_of(target: Path) -> str:
    """The format that a file's name asks for.

    Raises:
        SimflError: no such format.
    """
    format = target.suffix.removeprefix(".").lower()
    if format not in FORMATS:
        raise SimflError(f"{target}: the file must end in .pdf, .svg or .png")
    return format


def csv_text(table: "DataFrame") -> str:
    """The table as CSV: every digit, empty where a value is missing."""
    return table.to_csv(index=False, lineterminator="\n")


def save(fig: "Figure", table: "DataFrame", target: Path) -> tuple[Path, Path]:
    """Writes a figure and its table, ``FILE.csv`` beside ``FILE.pdf``; both paths.

    Raises:
        SimflError: no such format.
    """
    format = format_of(target)
    beside = target.with_suffix(".csv")
    write_atomically(target, picture(fig, format))
    write_atomically(beside, csv_text(table).encode())
    return target, beside
