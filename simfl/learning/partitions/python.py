"""A user's own partition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.core.errors import ScenarioError, amount
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import Dataset
from simfl.learning.objects.choice import PythonObject
from simfl.learning.objects.global_seeds import seed_generators
from simfl.learning.objects.handles import NEEDED, IndexLists, read_partition
from simfl.learning.partitions.base import PARTITIONS, Split, SplittingPartition


@PARTITIONS("python")
@dataclass(frozen=True)
class PythonPartition(PythonObject):
    """Your own partition, passed from Python or named as module:attribute.

    A list with an array of positions of training samples for each client, a mapping of clients to such arrays (FedLab's
    data_indices), or a function (labels, clients, rng) that returns one; rng is a numpy generator that depends on the
    scenario's seed only.
    """

    key = "learning.partition"
    example = {"object": "simfl.learning.objects.examples:in_turn"}

    def prepare(self, setting: ScenarioView) -> SplittingPartition:
        return UserPartition(self.object, self.handle(setting).value)

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        raise NotImplementedError("prepare() gives the partition that can split")


@dataclass(frozen=True)
class UserPartition:
    """The parts ``value``, or those that it gives if it is a function; ``name`` is for messages."""

    name: str
    value: IndexLists | Callable[..., object]

    changes: ClassVar[bool] = False
    counts_change: ClassVar[bool] = False

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        """
        Raises:
            ScenarioError: they are not as many as clients, or name samples that there are not, or one twice.
        """
        parts = self._call(self.value, data, clients, rng) if callable(self.value) else self.value
        samples = len(data.y_train)
        if len(parts) != clients:
            near = f"; the nearest valid value of clients is {len(parts)}" if parts else ""
            raise ScenarioError(
                "partition", f"{self.name} has {amount(len(parts), 'part')} for {amount(clients, 'client')}{near}"
            )
        for client, part in enumerate(parts):
            if len(part) and not (0 <= part.min() and part.max() < samples):
                wrong = int(part.min() if part.min() < 0 else part.max())
                reach = f"positions of training samples reach from 0 to {samples - 1}"
                raise ScenarioError("partition", f"{self.name} gives client {client} the sample {wrong}; {reach}")
            if len(np.unique(part)) < len(part):
                raise ScenarioError("partition", f"{self.name} gives client {client} a sample twice")
        return Split.of(parts)

    def _call(
        self, function: Callable[..., object], data: Dataset, clients: int, rng: np.random.Generator
    ) -> IndexLists:
        call = f"{self.name}(labels, clients, rng)"
        try:
            with seed_generators(int(rng.integers(2**63))):
                parts = read_partition(function(data.y_train.copy(), clients, rng))
        except Exception as error:  # somebody else's code may raise anything
            why = " ".join(str(error).split())
            raise ScenarioError("partition", f"{call} raises {type(error).__name__}: {why}") from error
        if callable(parts):
            raise ScenarioError("partition", f"{call} returns a function; {NEEDED}")
        return parts
