"""Any table in a text file."""

import csv
import zlib
from dataclasses import dataclass, field, replace
from lzma import LZMAError
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError, SimflError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.storage.text_table import MISSING, Dialect, dialect_of, is_number, open_bytes
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.image_arrays import broken, cut_by_client
from simfl.learning.data.limits import MAX_COLUMNS, check_text
from simfl.learning.data.table_columns import Categories, ColumnRoles, MissingField, named_columns, table_data

UNREADABLE = (OSError, ValueError, EOFError, LZMAError, zlib.error, csv.Error)
"""What damaged files raise; pandas' parser errors are ValueErrors."""


@DATA("csv")
@dataclass(frozen=True)
class Csv:
    """A table in a text file: text columns one-hot, numbers scaled by the training part, one label column.

    Cells stand between commas, semicolons, tabs, bars or blanks; the text may be UTF-16 or Latin-1, compressed (.gz,
    .bz2, .xz) and have comments at its head.
    """

    path: Annotated[DataPath, Field(description="the file")]
    label: Annotated[str, Field(description="column to predict; its number, from 0, where there is no header")]
    test_path: Annotated[DataPath | None, Field(description="file with the test rows; null = test_fraction")] = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the rows kept for the test")] = 0.2
    header: Annotated[bool, Field(description="the first line names the columns")] = True
    drop: Annotated[tuple[str, ...], Field(description="columns to leave out")] = ()
    client: Annotated[
        str | None,
        Field(description="column of the clients, no feature: for the partition natural, and the test's cut"),
    ] = field(default=None, metadata=SINCE_LATER)
    categories: Categories = field(default=(), metadata=SINCE_LATER)
    missing: MissingField = field(default=None, metadata=SINCE_LATER)
    regression: Annotated[
        bool, Field(description="the label is a number, for learning.loss: mse and the like; it is not scaled")
    ] = field(default=False, metadata=SINCE_LATER)
    decimal: Annotated[
        Literal[".", ","] | None, Field(description="mark of decimals; null = a comma where cells show it")
    ] = field(default=None, metadata=SINCE_LATER)

    example = {"path": "table.csv", "label": "label"}

    def outline(self, setting: ScenarioView) -> None:
        for path in self._paths(setting):
            self._header(path)

    @property
    def by_seed(self) -> bool:
        return self.test_path is None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = self._paths(setting)
        tables, notes = zip(*(self._read(path) for path in paths), strict=True)
        if list(tables[-1].columns) != list(tables[0].columns):
            raise broken(paths[-1], f"its columns are not those of {self.path}")

        def cut(ids: Any, rows: int) -> tuple[Any, Any]:
            if ids is not None:
                return cut_by_client(ids, rows, self.test_fraction, streams("split"))
            order, test = streams("split").permutation(rows), round(rows * self.test_fraction)
            return np.sort(order[test:]), np.sort(order[:test])

        data = table_data(tables, paths, self._plan, cut)
        return replace(data, notes=(*(note for each in notes for note in each), *data.notes))

    @property
    def _plan(self) -> ColumnRoles:
        roles = self.label, self.client, self.drop, self.categories, self.missing, self.regression
        return ColumnRoles(*roles)

    def _paths(self, setting: ScenarioView) -> list[Path]:
        """The file, and that of the test rows where there is one."""
        return named_files(setting, self.path, self.test_path)

    def _header(self, path: Path) -> Dialect:
        """How a file is written, after its names of columns were compared with the scenario's.

        Raises:
            ScenarioError: it is no table, or a column is not there.
        """
        dialect = table_dialect(path)
        names = list(dialect.header) if self.header else [str(place) for place in range(len(dialect.header))]
        numbers = [str(place) for place in range(len(names))]
        if self.header and len(names) > 1 and all(map(is_number, names)) and names != numbers:
            raise broken(path, f"line {dialect.skipped + 1} holds numbers only; write header: false if it is a row")
        shown = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
        self._plan.check(path, shown)
        return dialect

    def _read(self, path: Path) -> tuple[Any, list[str]]:
        """A table, and what is to be said of how it was read."""
        dialect = self._header(path)
        names = enumerate(dialect.header if self.header else ())
        nameless = [place for place, name in names if not name or name.startswith("Unnamed: ")]  # as pandas calls them
        frame = read_table(path, dialect, self.header, self.decimal)
        named_rows = type(frame.index).__name__ != "RangeIndex"
        notes = [f"{path}: {dialect.note}"] if dialect.note else []
        notes += [f"{path}: rows have one cell more than the header, in front: names of rows, left out"] * named_rows
        frame, left_out = named_columns(frame.reset_index(drop=True), nameless, self.drop, path)
        return frame, notes + left_out


def named_files(setting: ScenarioView, path: str, test_path: str | None) -> list[Path]:
    """The file of a data set, and that of the test part where there is one.

    Raises:
        MissingError: one is not there.
    """
    paths = []
    for name, key in ((path, "path"), (test_path, "test_path")):
        if name is not None:
            paths.append(Path(setting.file(name)))
            if not paths[-1].is_file():
                raise MissingError(f"learning.data.{key}: {paths[-1]} not found")
    return paths


def table_dialect(path: Path) -> Dialect:
    """How a table is written.

    Raises:
        ScenarioError: it is no table, or too large.
    """
    try:
        dialect = dialect_of(path)
    except SimflError as error:
        raise ScenarioError("", str(error)) from None
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if not dialect.header:
        raise broken(path, "is not a readable CSV file (it is empty)")
    if len(dialect.header) > MAX_COLUMNS:
        raise broken(path, f"has {len(dialect.header):,} columns; at most {MAX_COLUMNS:,} are taken")
    return dialect


def read_table(path: Path, dialect: Dialect, header: bool, decimal: str | None) -> Any:
    """A data frame of a table in whatever dialect; decimals have a point, or a comma where cells show it.

    Raises:
        ScenarioError: it is no table, or a cell such as 1,234 may be either.
    """
    blank = dialect.separator == " "
    options: dict[str, Any] = {
        "sep": r"\s+" if blank else dialect.separator,
        "encoding": dialect.encoding,
        "skiprows": dialect.skipped,
        "header": 0 if header and not dialect.commented else None,
        "names": dialect.header if header and dialect.commented else None,
        "na_values": MISSING,
    }
    frame = read_csv(path, decimal=decimal or ".", **options)
    if decimal is not None or dialect.separator == ",":
        return frame
    texts = [frame[name].dropna().astype("string") for name in frame.columns if frame[name].dtype.kind not in "iufbM"]
    commas = {cell for column in texts for cell in column[column.str.fullmatch(r"\s*[-+]?\d+,\d+\s*")].unique()}
    if not commas:
        return frame
    if all(len(cell.strip().partition(",")[2]) == 3 and not cell.strip().startswith("0") for cell in commas):
        why = f"'{min(commas)}' may have a decimal comma or a thousands mark"
        raise broken(path, f"{why}; write decimal: ',', or the numbers without marks")
    return read_csv(path, decimal=",", **options)


def _unreadable(path: Path, error: Exception) -> ScenarioError:
    return broken(path, f"is not a readable CSV file ({' '.join(str(error).split())})")


def read_csv(path: Path, **options: object) -> Any:
    """A data frame whose column names are strings; cells without content are missing, blanks around them do not count.

    Raises:
        ScenarioError: it is no table, or too large.
    """
    import pandas as pd

    try:
        check_text(path)
        with open_bytes(path) as file:
            frame = pd.read_csv(file, skipinitialspace=True, **options)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if frame.index.nlevels > 1:
        raise broken(path, "its rows have more cells than its header has columns")
    frame.columns = [str(column).strip() for column in frame.columns]
    return frame
