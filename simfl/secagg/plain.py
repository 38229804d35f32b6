"""No secure aggregation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.certificate_words import ONLY_SUMS
from simfl.core.coverage import looks_ahead
from simfl.core.payload import SUMMABLE
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Aggregate
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.secagg.sessions import ClientUpdates, Cohort, Session, SessionFailure, SessionResult
from simfl.secagg.transcript import Rows, Transcript


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


@PROTOCOLS("ideal")
@dataclass(frozen=True)
class Ideal(Plain):
    """A trusted party adds the updates up, so that only sums are seen; it costs no time, no bytes and no rounding.

    What sums tell is what multi-round privacy is about where secure aggregation is left aside (So et al., arXiv
    2106.03328, section 2). That only sums are seen is taken for granted; a real protocol makes it so, and costs time
    and bytes. Any clients who collude with the server learn the sum less their own updates, and nothing else.
    """

    shows_updates = False
    opens_last = opens_confirmed = by_units = True
    assumes = ONLY_SUMS
    covers = SUMMABLE
    closes_failures = True

    def tolerance(self, members: int, clients: int) -> int | None:
        return clients

    def view(self, transcript: Transcript, coalition: NDArray[np.int32], streams: Streams) -> Rows:
        return transcript.sum(coalition) if transcript.ended else transcript.none()

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if not looks_ahead(setting):
            return []
        why = "adds what clients have sent before the model exists that it is to be compared with"
        return [("name", f"{why}; add the clients' changes (mix: deltas), or use secagg: plain")]
