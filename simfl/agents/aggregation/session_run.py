"""A session of a protocol on the clock: its phases one after another, each an exchange with those it asks."""

from collections.abc import Generator
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import Exchange, exchange, sample_delays
from simfl.core.rng import Address
from simfl.core.validation import checked_type, checked_vectors
from simfl.results.tables import PhaseRow
from simfl.secagg.sessions import PhaseRequest, PreparedUnits, R, Session, SessionFailure, SessionResult
from simfl.training.base import Rule


class CompletedSession(NamedTuple, Generic[R]):
    """A protocol session from its first request to its end.

    Attributes:
        name: what it is for.
        ends_s: when it ends, simulated seconds.
        result: what the session returned.
        exchanges: its phases.
    """

    name: str
    ends_s: float
    result: R
    exchanges: list[Exchange]

    @property
    def responders(self) -> NDArray[np.int32] | None:
        """Who answered its last phase, or lived to do so, late or not; None = it asked nobody."""
        if not self.exchanges:
            return None
        return self.exchanges[-1].request.to[self.exchanges[-1].delays.lives]

    def phases(self, round: int) -> list[PhaseRow]:
        """Its rows of phases.csv; a failure, and whom the session tolerates, stand with the last phase."""
        failure = self.result.reason if isinstance(self.result, SessionFailure) else None
        result = self.result if self.name == "recover" else None
        tolerated = result.tolerated if isinstance(result, SessionResult | SessionFailure) else None
        rows = [each.phase(round) for each in self.exchanges]
        if failure is not None and not rows:  # it had nobody left to ask
            rows = [PhaseRow(round, self.name, self.ends_s, self.ends_s, 0, 0, 0, 0, 0, None)]
        return [*rows[:-1], *(row._replace(failure=failure, tolerated=tolerated) for row in rows[-1:])]


def run_session(
    parts: Components[Rule],
    session: Session[R],
    selection_id: int,
    begins_s: float,
    name: str,
    units: int | None = None,
) -> CompletedSession[R]:
    """Runs a protocol session: it depends on nothing that happens meanwhile, so that its end is known at once.

    Args:
        parts: the built scenario.
        session: the protocol's side of it.
        selection_id: with the clients, the address of the draws.
        begins_s: when it begins.
        name: of the session; tells those at one address apart.
        units: how many units it serves, where that is to be checked.

    Raises:
        PluginError: it is no session, or returned what is no session's result.
    """
    exchanges: list[Exchange] = []
    now, protocol = begins_s, f"secagg '{parts.protocol.name}'"
    checked_type(session, Generator, protocol, name, "a generator that yields phases")
    try:
        request = next(session)
        while True:
            checked_type(request, PhaseRequest, protocol, name, "a PhaseRequest with every yield")
            where = Address(selection_id, request.to, parts.clients)
            one = exchange(request, sample_delays(parts, request, where, f"/{name}/{len(exchanges)}"), now)
            exchanges.append(one)
            now = one.ends_s
            request = session.send(one.responded)
    except StopIteration as end:
        result: R = end.value
        check_result(protocol, name, result, units)
        return CompletedSession(
            name, now + (result.compute_s if isinstance(result, SessionResult) else 0.0), result, exchanges
        )


RESULTS = {"prepare": PreparedUnits, "recover": SessionResult}
"""What sessions with these names return, if they do not fail."""


def check_result(protocol: str, name: str, result: object, units: int | None) -> None:
    """
    Raises:
        PluginError: a session of this name cannot return this.
    """
    if name not in RESULTS or isinstance(result, SessionFailure):
        return
    checked_type(result, RESULTS[name], protocol, name, f"{RESULTS[name].__name__} or SessionFailure in the end")
    assert isinstance(result, PreparedUnits | SessionResult)
    checked_vectors(result.kept_units, (units,), protocol, f"{name} gives as kept_units")
