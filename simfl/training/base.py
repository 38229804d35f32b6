"""What a training rule is: weights for the updates that arrived, and the server's step. Flat vectors only."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.registry import Registry

__all__ = ["RULES", "Rule", "State"]

RULES = Registry("training")

State = dict[str, NDArray[Any]]
"""The server optimiser's explicit state, name -> array; saved in checkpoints."""


class Rule(Protocol):
    """A frozen dataclass: YAML keys in, pure functions of updates out.

    The world reads the rule's schedule (``rounds``, ``deadline_s``, ``on_failure``, ``announce``), the learner
    its local training settings (:class:`simfl.local.LocalTraining`), the server the methods below.

    A rule with a field ``arrivals`` is asynchronous: its server is the one that plays these arrivals, and it needs
    the methods of :class:`simfl.training.fedbuff.FedBuff` instead.

    Attributes:
        rounds: rounds to play.
        most_rounds: rounds after which the run ends at the latest; None if something else ends it.
        keeps_units: whether a unit is in an aggregate whole and with one weight, or not at all; what theory says of
            a policy's guarantee rests on it.
    """

    rounds: int
    most_rounds: int | None
    keeps_units: bool

    def weights(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weight each update carries in the sum, float64, shape (n,); what the participation row holds."""
        ...

    def start(self, dimension: int) -> State:
        """The server optimiser's state before the first aggregation."""
        ...

    def step(
        self, model: NDArray[np.float32], deltas: NDArray[np.float32], weights: NDArray[np.float64], state: State
    ) -> tuple[NDArray[np.float32], State]:
        """The next global model, float32 (d,), from n >= 1 deltas (n, d) and their weights (n,); pure."""
        ...
