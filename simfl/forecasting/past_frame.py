"""Logs that are tables in memory."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from simfl.forecasting.past import Past, read_past

if TYPE_CHECKING:
    from pandas import DataFrame


def past_from_frame(frame: "DataFrame", columns: Mapping[str, str] | None = None) -> Past:
    """The past that a table tells of, with a row for every client in every round, read as the same table in a file.

    Raises:
        SimflError: an entry is impossible; the message names the row of the table, after a heading.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "frame.csv"
        file.write_bytes(frame.to_csv(index=False, lineterminator="\n").encode())
        return read_past(file, columns)
