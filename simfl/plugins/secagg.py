"""Aggregation protocols."""

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.secagg.sessions import (
    ClientUpdates,
    Cohort,
    PhaseRequest,
    PreparedUnits,
    Session,
    SessionFailure,
    SessionResult,
)
from simfl.secagg.transcript import Rows, Transcript, rows_of

__all__ = [
    "ClientUpdates", "Cohort", "MASKED_COLUMNS", "PROTOCOLS", "PhaseRequest", "PreparedUnits", "Protocol", "Rows",
    "Session", "SessionFailure", "SessionResult", "Transcript", "failing", "rows_of",
]  # fmt: skip
