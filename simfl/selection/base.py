"""What a selection policy is: whole units of clients out of a view, with a stream, and nothing else."""

from typing import Protocol

import numpy as np

from simfl.registry import Registry
from simfl.types import Units, View

__all__ = ["POLICIES", "Policy"]

POLICIES = Registry("selection")


class Policy(Protocol):
    """Decides who takes part; a frozen dataclass whose fields are its YAML keys.

    Attributes:
        k: clients in one synchronous aggregation.
        unit_size: clients that always take part together; FedBuff asks for one unit at a time.
    """

    k: int

    @property
    def unit_size(self) -> int: ...

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        """Exactly ``k`` available clients in whole units, shape (k // unit_size, unit_size), or no row: nobody now.

        Pure: the same view, k and stream give the same units, and no argument is changed.
        """
        ...


def shuffled(policy: Policy, order: np.ndarray) -> Policy:
    """Placeholder until the policies are merged."""
    return policy
