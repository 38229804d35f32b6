"""UCI Adult as private empirical risk minimisation takes it: complete rows of norm 1."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import load_cached
from simfl.learning.data.adult import adult_paths, read_adult
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.image_arrays import broken
from simfl.learning.data.mnist import Root
from simfl.learning.data.scale import unit_rows

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
