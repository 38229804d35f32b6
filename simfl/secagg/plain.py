"""No secure aggregation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.rng import Streams
from simfl.secagg.base import PROTOCOLS, Cohort, Contributions, Protocol, Summed, Talk
from simfl.types import Total

__all__ = ["Plain"]


@PROTOCOLS("plain")
@dataclass(frozen=True)
class Plain(Protocol):
    """The server sees each update and adds them up."""

    shows_updates = True
    sums_whoever_comes = True

    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams) -> Talk:
        return Summed(np.asarray(uploaded.all(axis=1)))
        yield

    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        normaliser = given.divisor(given.weights)
        vector = given.combine(given.vectors, given.weights, normaliser, given.holds)
        return Total(vector, given.clients, given.row)
