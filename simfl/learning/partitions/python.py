"""A user's own partition."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import Dataset
from simfl.learning.objects.choice import PythonObject
from simfl.learning.partitions.base import PARTITIONS, Split, SplittingPartition


@PARTITIONS("python")
@dataclass(frozen=True)
class PythonPartition(PythonObject):
    """Your own partition, handed in from Python or named as module:attribute.

    A list with an array of positions of training samples for each client, or a function (labels, clients, rng) that
    returns one; rng is a numpy generator that depends on the scenario's seed only.
    """

    key = "learning.partition"
    example = {"object": "simfl.learning.objects.examples:in_turn"}

    def prepare(self, setting: ScenarioView) -> SplittingPartition:
        return _Prepared(self, self.handle(setting).value)

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        raise NotImplementedError("prepare() gives the partition that can split")

    def assign(self, value: Any, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        """The split by ``value``, the object that was found.

        Raises:
            ScenarioError: it does not fit the data or the clients.
        """
        from simfl.learning.objects.index_lists import checked_split

        return checked_split(self.object, value, data, clients, rng)


@dataclass(frozen=True)
class _Prepared:
    choice: PythonPartition
    value: Any
    changes: ClassVar[bool] = False

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        return self.choice.assign(self.value, data, clients, rng)
