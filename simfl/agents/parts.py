"""What the agents work with and what they leave behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.devices.base import Available, Computing, Failing
from simfl.learning.base import Learner
from simfl.network.base import Links
from simfl.rng import Streams
from simfl.selection.base import Policy
from simfl.training.base import Rule

__all__ = ["Parts", "Round"]


@dataclass(frozen=True)
class Parts:
    """Everything a server works with, built from one scenario."""

    clients: int
    streams: Streams
    links: Links
    available: Available
    computing: Computing
    failing: Failing
    policy: Policy
    rule: Rule
    learner: Learner
    evaluate_every: int


@dataclass(frozen=True)
class Round:
    """What one aggregation, or skipped round, left behind.

    Attributes:
        number: the round, from 0.
        clients: int32 (n,), ascending: whose updates were aggregated.
        weights: (n,): the row of the participation matrix at those clients; integer 1 where every update counts once.
        row: the cells of rounds.csv that the server knows.
        last: whether the run ends with it.
        jobs: rows of jobs.csv; asynchronous servers only.
    """

    number: int
    clients: NDArray[np.int32]
    weights: NDArray[Any]
    row: dict[str, Any]
    last: bool
    jobs: Sequence[tuple[Any, ...]] = ()
