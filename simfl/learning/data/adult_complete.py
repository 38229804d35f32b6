"""UCI Adult as private empirical risk minimisation takes it: complete rows of norm 1."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.learning.data.adult import adult_paths, read_adult
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.images import broken
from simfl.learning.data.mnist import Root
from simfl.learning.data.scale import unit_rows
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["AdultComplete"]


@DATA("adult_complete")
@dataclass(frozen=True)
class AdultComplete:
    """The 45,222 people of Adult of whom everything is known: 6 numbers and 98 columns of 0 and 1, rows of norm 1.

    Both files are one table here, split at random. Reference: Byrd et al., ICAIF 2022, section 5.1.
    """

    root: Root = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the rows kept for the test")] = 0.25

    def outline(self, setting: Setting) -> None:
        adult_paths(self.root, setting)

    def load(self, setting: Setting, streams: Streams) -> Dataset:
        import pandas

        paths = adult_paths(self.root, setting)
        table = pandas.concat(read_adult(paths), ignore_index=True)
        table = table[~(table == "?").any(axis=1)]
        names = sorted(set(table["income"]))
        if len(names) != 2:
            raise broken(paths[0], f"has {len(names)} incomes instead of 2")
        y = (table["income"] == names[1]).to_numpy(dtype=np.int64)
        x = unit_rows(pandas.get_dummies(table.drop(columns="income")).to_numpy(dtype=np.float64))
        order = streams("split").permutation(len(y))
        cut = round(len(y) * self.test_fraction)
        test, train = order[:cut], order[cut:]
        return Dataset(x[train], y[train], x[test], y[test], tuple(names))
