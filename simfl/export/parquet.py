"""Every table of a results folder as a Parquet file beside it; of a sweep, all rounds of all its runs as well."""

import io
from pathlib import Path

from simfl.disk import refuse_links_of_results, write_atomically
from simfl.errors import MissingError, SimflError
from simfl.results import read_table
from simfl.stored import Stored, is_finished, is_swept
from simfl.tidy import all_rounds

__all__ = ["export"]


def export(folder: Path, to: Path) -> list[Path]:
    """Writes each ``*.csv`` of ``folder`` as ``*.parquet`` into ``to``; the files written.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: a table cannot be read, or there is none.
        IntegrityError: it is damaged.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingError('Parquet needs the extra "parquet": pip install "simfl[parquet]"') from None
    if is_finished(folder):
        stored = Stored.open(folder)
        tables = {Path(name).stem: read_table(stored.file(name)) for name in stored.files if name.endswith(".csv")}
    else:
        swept = Stored.swept(folder) if is_swept(folder) else None
        names = sorted(name for name in swept.files if name.endswith(".csv")) if swept else ()
        tables = {Path(name).stem: read_table(swept.file(name)) for name in names} if swept else {}
        if "index" in tables and (tables["index"].status == "done").any():
            tables["rounds"] = all_rounds(folder)
    if not tables:
        raise SimflError(f"{folder}: no tables here; give the folder of a run, a sweep or a comparison")
    refuse_links_of_results(to)
    to.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in tables.items():
        buffer = io.BytesIO()
        table.to_parquet(buffer, engine="pyarrow", index=False)
        written.append(to / f"{name}.parquet")
        write_atomically(written[-1], buffer.getvalue())
    return written
