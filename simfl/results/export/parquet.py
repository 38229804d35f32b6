"""Every table of a results folder as a Parquet file beside it; of a sweep, all rounds of all its runs as well."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError, requires_extra
from simfl.core.storage.disk import refuse_links_of_results, write_atomically
from simfl.results.file_names import is_finished, is_swept, refuse_result_files
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import all_rounds, read_table

if TYPE_CHECKING:
    from pandas import DataFrame


def export(folder: Path, to: Path) -> list[Path]:
    """Writes each ``*.csv`` of ``folder`` as ``*.parquet`` into ``to``; the files written.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: a table cannot be read, or there is none.
        IntegrityError: it is damaged.
    """
    with requires_extra("parquet", "Parquet"):
        import pyarrow  # noqa: F401
    if is_finished(folder):
        results = ResultsFolder.open(folder)
        tables = {Path(name).stem: read_table(results.file(name)) for name in results.files if name.endswith(".csv")}
    else:
        swept = ResultsFolder.open_sweep(folder) if is_swept(folder) else None
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
        written.append(to / f"{name}.parquet")
        write_atomically(written[-1], parquet_bytes(table))
    return written


def parquet_bytes(table: "DataFrame") -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def export_rounds(folder: Path, target: Path) -> list[Path]:
    """Writes the rounds of a run, a sweep or a comparison into one file, ``.csv`` or ``.parquet``; the file.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: another ending, results themselves, or no finished run.
        IntegrityError: a table is damaged.
    """
    refuse_result_files(target)
    kind = target.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SimflError(f"{target}: the file must end in .csv or .parquet")
    if kind == ".csv":
        data = all_rounds(folder).to_csv(index=False, lineterminator="\n").encode()
    else:
        with requires_extra("parquet", "Parquet"):
            import pyarrow  # noqa: F401
        data = parquet_bytes(all_rounds(folder))
    refuse_links_of_results(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, data)
    return [target]
