"""Any table in a CSV file."""

import csv
import zlib
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.image_arrays import broken
from simfl.learning.data.limits import decompress, first_line
from simfl.learning.data.table import encode

UNREADABLE = (OSError, ValueError, EOFError, LZMAError, zlib.error)
"""What damaged files raise; pandas' parser errors are ValueErrors."""


@DATA("csv")
@dataclass(frozen=True)
class Csv:
    """A CSV file (also gzipped): text columns one-hot, numbers scaled by the training part, one label column."""

    path: Annotated[DataPath, Field(description="the file")]
    label: Annotated[str, Field(description="column to predict; its number, from 0, where there is no header")]
    test_path: Annotated[DataPath | None, Field(description="file with the test rows; null = test_fraction")] = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the rows kept for the test")] = 0.2
    header: Annotated[bool, Field(description="the first line names the columns")] = True
    drop: Annotated[tuple[str, ...], Field(description="columns to leave out")] = ()

    example = {"path": "table.csv", "label": "label"}

    def outline(self, setting: ScenarioView) -> None:
        for name, key in ((self.path, "path"), (self.test_path, "test_path")):
            if name is not None:
                self._check_columns(self._path(setting, name, key))

    def _check_columns(self, path: Path) -> None:
        try:
            line = first_line(path).decode("utf-8-sig").strip()
        except UNREADABLE as error:
            raise _unreadable(path, error) from error
        names = next(csv.reader([line], skipinitialspace=True), [])
        if not self.header:
            names = [str(number) for number in range(len(names))]
        if len(set(names)) < len(names) or not line:
            return  # pandas will give names of its own
        for name in (self.label, *self.drop):
            if name not in names:
                raise broken(path, f"has no column '{name}'; it has {', '.join(names)}")

    @property
    def by_seed(self) -> bool:
        return self.test_path is None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        path = test_file = self._path(setting, self.path, "path")
        train = self._read(path)
        if self.test_path is not None:
            test_file = self._path(setting, self.test_path, "test_path")
            test = self._read(test_file)
            if list(test.columns) != list(train.columns):
                raise broken(test_file, f"its columns are not those of {self.path}")
        else:
            order = streams("split").permutation(len(train))
            cut = round(len(train) * self.test_fraction)
            train, test = train.iloc[np.sort(order[cut:])], train.iloc[np.sort(order[:cut])]
        if unknown := [column for column in self.drop if column not in train.columns]:
            raise broken(path, f"has no column '{unknown[0]}' to drop; it has {', '.join(train.columns)}")
        train, test = (part.drop(columns=list(self.drop)) for part in (train, test))
        return encode(train, test, self.label, (path, test_file))

    def _path(self, setting: ScenarioView, name: str, key: str) -> Path:
        path = Path(setting.file(name))
        if not path.is_file():
            raise MissingError(f"learning.data.{key}: {path} not found")
        return path

    def _read(self, path: Path) -> Any:
        return read_csv(path, header=0 if self.header else None)


def _unreadable(path: Path, error: Exception) -> ScenarioError:
    return broken(path, f"is not a readable CSV file ({' '.join(str(error).split())})")


def read_csv(path: Path, **options: object) -> Any:
    """A data frame whose column names are strings; cells without content are missing, blanks around them do not count.

    Raises:
        ScenarioError: it is no table, or too large.
    """
    import pandas as pd

    try:
        with decompress(path) as file:
            frame = pd.read_csv(file, skipinitialspace=True, **options)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if frame.index.nlevels > 1:
        raise broken(path, "its rows have more cells than its header has columns")
    frame.columns = [str(column) for column in frame.columns]
    return frame.reset_index(drop=True)  # one cell more: names of the rows, as R writes them
