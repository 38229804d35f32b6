"""A plugin file of dirichlet.py: clients with few samples, whose classes follow a Dirichlet distribution."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split, by_class


@PARTITIONS("few_samples")
@dataclass(frozen=True)
class FewSamples:
    """Every client holds ``samples`` training samples, of classes in proportions from Dirichlet(beta, ..., beta).

    No sample is held twice; the rest of the data nobody holds. With ``learning.partition: dirichlet`` clients would
    share out all the data.
    """

    beta: Annotated[float, Field(gt=0, le=1e9, description="concentration: large = IID, small = one class a client")]
    samples: Annotated[int, Field(ge=1, le=10**9, description="training samples of each client")] = 100

    example = {"beta": 0.5, "samples": 5}
    leaves_nobody_out = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools = by_class(data, rng)
        mixtures = rng.dirichlet(np.full(len(pools), self.beta), size=clients)
        counts = rng.multinomial(self.samples, mixtures)  # (clients, classes)
        ends = counts.cumsum(axis=0)
        for label, pool in enumerate(pools):
            if ends[-1, label] > len(pool):
                problem = f"is too large: clients want {ends[-1, label]} of the {len(pool)} samples of class {label}"
                raise ScenarioError("samples", f"{problem}; take fewer")
        return Split.of(
            [
                np.concatenate([pool[end - count : end] for pool, end, count in zip(pools, until, own, strict=True)])
                for until, own in zip(ends, counts, strict=True)
            ]
        )
