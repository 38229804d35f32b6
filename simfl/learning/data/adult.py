"""UCI Adult: does a person of the 1994 census earn more than 50,000 dollars a year? As a table, or complete rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.errors import MissingError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import data_places, data_root, load_cached
from simfl.learning.data.base import DATA, Dataset, SubsetField, subset
from simfl.learning.data.csv import read_csv
from simfl.learning.data.image_arrays import broken, unit_rows
from simfl.learning.data.image_sets import Root
from simfl.learning.data.table import encode

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


@DATA("adult")
@dataclass(frozen=True)
class Adult:
    """32,561 + 16,281 people, 14 columns, income above 50K or not. Reference: Becker and Kohavi 1996 (UCI)."""

    root: Root = None
    samples: SubsetField = field(default=None, metadata=SINCE_LATER)

    def outline(self, setting: ScenarioView) -> None:
        adult_paths(self.root, setting)

    @property
    def by_seed(self) -> bool:
        """Which samples there are, where some are drawn."""
        return self.samples is not None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = adult_paths(self.root, setting)
        return subset(encode(*read_adult(paths), "income", paths), self.samples, streams)


def adult_paths(root: str | None, setting: ScenarioView) -> tuple[Path, Path]:
    """The two files, in a folder or in the data folder.

    Raises:
        MissingError: they are not there.
    """
    place = setting.file(root) if root else data_root()
    for folder in (Path(place), Path(place) / "adult") if place else ():
        paths = folder / "adult.data", folder / "adult.test"
        if all(path.is_file() for path in paths):
            return paths
    raise MissingError(
        f"learning.data: no adult.data and adult.test in {place if root else data_places()}; "
        "get them from https://archive.ics.uci.edu/dataset/2/adult and name their folder in learning.data.root"
    )


def read_adult(paths: tuple[Path, Path]) -> tuple[Any, Any]:
    """Both files as pandas data frames, labels without the full stop of the test file.

    Raises:
        ScenarioError: they are not what they should be.
    """
    train, test = (read_csv(path, names=COLUMNS, index_col=False, comment="|", skip_blank_lines=True) for path in paths)
    for part, path in ((train, paths[0]), (test, paths[1])):
        if part["income"].isna().any():
            raise broken(path, "has rows of fewer than 15 columns")
        part["income"] = part["income"].astype(str).str.rstrip(".")
    return train, test


INCOMES = ("<=50K", ">50K")


@DATA("adult_complete")
@dataclass(frozen=True)
class AdultComplete:
    """The 45,222 people of Adult of whom everything is known: 6 numbers and 98 columns of 0 and 1, rows of norm 1.

    Both files are one table here, split at random. Reference: Byrd et al., ICAIF 2022, section 5.1.
    """

    root: Root = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the rows kept for the test")] = 0.25

    def outline(self, setting: ScenarioView) -> None:
        adult_paths(self.root, setting)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = adult_paths(self.root, setting)
        arrays = load_cached("adult_complete v1", paths, lambda: _decode(paths))
        x, y = arrays["x"], arrays["y"]
        order = streams("split").permutation(len(y))
        cut = round(len(y) * self.test_fraction)
        test, train = order[:cut], order[cut:]
        return Dataset(x[train], y[train], x[test], y[test], INCOMES)


def _decode(paths: tuple[Path, Path]) -> dict[str, Any]:
    import pandas

    table = pandas.concat(read_adult(paths), ignore_index=True)
    table = table[~(table == "?").any(axis=1)]
    if set(table["income"]) != set(INCOMES):
        raise broken(paths[0], f"has incomes other than {' and '.join(INCOMES)}")
    x = unit_rows(pandas.get_dummies(table.drop(columns="income")).to_numpy(dtype=np.float64))
    return {"x": x, "y": (table["income"] == INCOMES[1]).to_numpy(dtype=np.int64)}
