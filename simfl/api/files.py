"""Files that are checked when they are read and complete once they are written: tables, logs, folders of results."""

from simfl.core.json_data import number_of
from simfl.core.storage.disk import (
    make_folder,
    naming,
    open_own,
    open_regular,
    read_regular,
    refuse_link,
    touch,
    write_atomically,
)
from simfl.core.storage.text_table import (
    MISSING,
    UNREADABLE,
    Dialect,
    csv_rows,
    dialect_of,
    is_number,
    open_bytes,
    open_text,
)
from simfl.report.axes import natural
from simfl.results.client_updates import UpdateRecord, UpdateReplay, UpdateStore, npy_bytes
from simfl.results.file_names import JOB_TIMES, JOINED, JOINED_LIST, SCENARIO, is_finished, refuse_result_files
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import participation_matrices, read_table, together
from simfl.results.sealed_files import read_sealed, read_sealed_bytes, seal_bytes, write_sealed
from simfl.results.tables import csv_bytes, without_formulas

__all__ = [
    "Dialect", "JOB_TIMES", "JOINED", "JOINED_LIST", "MISSING", "ResultsFolder", "SCENARIO", "UNREADABLE",
    "UpdateRecord", "UpdateReplay", "UpdateStore", "csv_bytes", "csv_rows", "dialect_of", "is_finished",
    "is_number", "make_folder", "naming", "natural", "npy_bytes", "number_of", "open_bytes", "open_own", "open_regular",
    "open_text", "participation_matrices", "read_regular", "read_sealed", "read_sealed_bytes", "read_table",
    "refuse_link", "refuse_result_files", "seal_bytes", "together", "touch", "without_formulas", "write_atomically",
    "write_sealed",
]  # fmt: skip
