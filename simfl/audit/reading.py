"""Participation logs in the forms in which they come: a list of entries, a matrix, a results folder."""

import csv
from pathlib import Path

from simfl.audit.delimited import read_delimited
from simfl.audit.entries import Columns
from simfl.audit.log import Log
from simfl.audit.matrices import array
from simfl.audit.records import json_lines, parquet
from simfl.core.errors import SimflError
from simfl.core.storage.disk import open_regular
from simfl.core.types import SERVER
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import participation_matrices, read_table, together
from simfl.scenario.yaml.reader import read as read_yaml

__all__ = ["Log", "read"]

READERS = {
    **dict.fromkeys((".npz", ".npy"), lambda path, columns: array(path)),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), json_lines),
    **dict.fromkeys((".parquet", ".pq"), parquet),
}


def read(path: Path | str, columns: Columns | None = None) -> Log:
    """Reads a participation log.

    Args:
        path: entries with the columns ``round,client[,weight]`` (CSV, TSV and other delimited text, JSON lines,
            Parquet), in any order and among others; a matrix with one row a round, as text (with or without a header
            of client names), NPY or NPZ (one array, or what ``scipy.sparse.save_npz`` writes); or the results folder
            of a run.
        columns: other names of columns, e.g. ``{"round": "iteration", "client": "uid"}``.

    Raises:
        SimflError: it is none of these, or an entry is impossible; the message names file and line.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        open_regular(path).close()
        return READERS.get(path.suffix.lower(), read_delimited)(path, columns)
    except csv.Error as error:
        raise SimflError(f"{path}: not a CSV file: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SimflError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _folder(path: Path) -> Log:
    reader = ResultsFolder.open(path)
    file = reader.file("participation.csv")
    matrices = participation_matrices(file, int(reader.summary["rounds"]), int(reader.summary["clients"]))
    peers = () if set(matrices) == {SERVER} else ("the update of each client that sums up what others send, by itself",)
    matrix, strong = together(matrices), reader.summary.get("privacy_strong")
    seen = (*peers, *reader.summary.get("beside_sums", ()))
    tolerated = reader.summary.get("tolerated_colluders")
    weighting = read_yaml(reader.read(SCENARIO).decode(), SCENARIO).value["training"].get("weighting")
    samples = None if weighting == "equal" else read_table(reader.file("clients.csv")).samples.to_numpy()
    return Log(matrix, range(matrix.shape[0]), range(matrix.shape[1]), (), True, strong, seen, tolerated, samples)
