"""No secure aggregation."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.rng import Streams
from simfl.secagg.base import PROTOCOLS, Cohort, Contributions, Summed, Talk
from simfl.types import Total

__all__ = ["Plain"]


@PROTOCOLS("plain")
@dataclass(frozen=True)
class Plain:
    """The server sees each update and adds them up."""

    joint: ClassVar[bool] = False
    shows_updates: ClassVar[bool] = True
    phases: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[Column, ...]] = ()

    def upload_bytes(self, update_bytes: Any, dimension: int) -> Any:
        return update_bytes

    def prepare(self, cohort: Cohort, streams: Streams) -> Talk:
        return None
        yield

    def recover(self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Any, streams: Streams) -> Talk:
        return Summed(uploaded.all(axis=1))
        yield

    def add(self, done: Summed, given: Contributions, streams: Streams) -> Total:
        normaliser = given.divisor(given.weights)
        vector = given.combine(given.vectors, given.weights, normaliser, given.holds)
        return Total(vector, given.clients, given.row)
