"""All rounds of all runs as one table."""

import io
from pathlib import Path

from simfl.disk import refuse_links_of_results, write_atomically
from simfl.errors import MissingError, SimflError
from simfl.stored import refuse_own
from simfl.tidy import all_rounds

__all__ = ["export"]


def export(folder: Path, target: Path) -> list[Path]:
    """Writes the rounds of a run, a sweep or a comparison into one file; the file.

    Args:
        folder: where the results are.
        target: ``.csv`` or ``.parquet``.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: another ending, results themselves, or no finished run.
        IntegrityError: a table is damaged.
    """
    refuse_own(target)
    kind = target.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SimflError(f"{target}: the file must end in .csv or .parquet")
    if kind == ".csv":
        data = all_rounds(folder).to_csv(index=False, lineterminator="\n").encode()
    else:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingError('Parquet needs the extra "parquet": pip install "simfl[parquet]"') from None
        buffer = io.BytesIO()
        all_rounds(folder).to_parquet(buffer, engine="pyarrow", index=False)
        data = buffer.getvalue()
    refuse_links_of_results(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, data)
    return [target]
