"""Any table in a CSV file."""

import zlib
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.errors import MissingError
from simfl.files import DataPath
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.images import broken
from simfl.learning.data.limits import inflated
from simfl.learning.data.table import encode
from simfl.rng import Streams

__all__ = ["Csv", "read_csv"]


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

    def load(self, scenario: Any, streams: Streams) -> Dataset:
        path = tested = Path(scenario.file(self.path))
        train = self._read(path, "path")
        if self.test_path is not None:
            tested = Path(scenario.file(self.test_path))
            test = self._read(tested, "test_path")
            if list(test.columns) != list(train.columns):
                raise broken(tested, f"its columns are not those of {self.path}")
        else:
            order = streams("split").permutation(len(train))
            cut = round(len(train) * self.test_fraction)
            train, test = train.iloc[np.sort(order[cut:])], train.iloc[np.sort(order[:cut])]
        if unknown := [column for column in self.drop if column not in train.columns]:
            raise broken(path, f"has no column '{unknown[0]}' to drop; it has {', '.join(train.columns)}")
        train, test = (part.drop(columns=list(self.drop)) for part in (train, test))
        return encode(train, test, self.label, (path, tested))

    def _read(self, path: Path, key: str) -> Any:
        if not path.is_file():
            raise MissingError(f"learning.data.{key}: {path} not found")
        return read_csv(path, header=0 if self.header else None)


def read_csv(path: Path, **options: Any) -> Any:
    """A data frame whose column names are strings; cells without content are missing, blanks around them do not count.

    Raises:
        ScenarioError: it is no table, or too large.
    """
    import pandas as pd

    try:
        with inflated(path) as file:
            frame = pd.read_csv(file, skipinitialspace=True, **options)
    except (OSError, ValueError, EOFError, LZMAError, zlib.error) as error:  # pandas' parser errors are ValueErrors
        raise broken(path, f"is not a readable CSV file ({' '.join(str(error).split())})") from error
    frame.columns = [str(column) for column in frame.columns]
    return frame
