"""All rounds of all runs as one table."""

from pathlib import Path

from simfl.core.errors import SimflError
from simfl.core.storage.disk import refuse_links_of_results, write_atomically
from simfl.results.export.parquet import parquet_bytes, require_pyarrow
from simfl.results.file_names import refuse_result_files
from simfl.results.frames import all_rounds


def export(folder: Path, target: Path) -> list[Path]:
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
        require_pyarrow()
        data = parquet_bytes(all_rounds(folder))
    refuse_links_of_results(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, data)
    return [target]
