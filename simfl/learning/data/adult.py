"""UCI Adult: does a person of the 1994 census earn more than 50,000 dollars a year?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simfl.core.errors import MissingError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import data_places, data_root
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.csv import read_csv
from simfl.learning.data.image_arrays import broken
from simfl.learning.data.mnist import Root
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

    def outline(self, setting: ScenarioView) -> None:
        adult_paths(self.root, setting)

    by_seed = False

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = adult_paths(self.root, setting)
        return encode(*read_adult(paths), "income", paths)


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
