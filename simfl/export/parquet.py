"""Every table of a results folder as a Parquet file beside it."""

import io
from pathlib import Path

from simfl.disk import write_atomically
from simfl.errors import MissingError
from simfl.results import read_table
from simfl.stored import Stored, is_finished

__all__ = ["export"]


def export(folder: Path, to: Path) -> list[Path]:
    """Writes each ``*.csv`` of ``folder`` as ``*.parquet`` into ``to``; the files written.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: a table cannot be read.
        IntegrityError: it is damaged.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingError('Parquet needs the extra "parquet": pip install "simfl[parquet]"') from None
    if is_finished(folder):
        stored = Stored.open(folder)
        tables = [stored.file(name) for name in stored.files if name.endswith(".csv")]
    else:
        tables = sorted(folder.glob("*.csv"))
    written = []
    for path in tables:
        buffer = io.BytesIO()
        read_table(path).to_parquet(buffer, engine="pyarrow", index=False)
        to.mkdir(parents=True, exist_ok=True)
        written.append(to / f"{path.stem}.parquet")
        write_atomically(written[-1], buffer.getvalue())
    return written
