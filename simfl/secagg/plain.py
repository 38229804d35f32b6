"""No secure aggregation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.types import Aggregate
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.secagg.sessions import Cohort, Session, SessionFailure, SessionResult
from simfl.secagg.updates import ClientUpdates


@PROTOCOLS("plain")
@dataclass(frozen=True)
class Plain(Protocol):
    """The server sees each update and adds them up."""

    shows_updates = True
    sums_whoever_comes = True

    def recover(
        self, cohort: Cohort, uploaded: NDArray[np.bool_], prepared: Sequence[Any], streams: Streams
    ) -> Session[SessionResult | SessionFailure]:
        return SessionResult(np.asarray(uploaded.all(axis=1)))
        yield

    def add(self, result: SessionResult, updates: ClientUpdates, streams: Streams) -> Aggregate:
        normaliser = updates.divisor(updates.weights)
        vector = updates.combine(updates.vectors, updates.weights, normaliser, updates.mask)
        return Aggregate(vector, updates.clients, updates.row)
