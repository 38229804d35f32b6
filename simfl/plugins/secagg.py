"""Aggregation protocols."""

from simfl.core.columns import MASKED_COLUMNS, failing
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.secagg.sessions import ClientUpdates, Cohort, PhaseRequest, PreparedUnits, SessionFailure, SessionResult
from simfl.secagg.transcript import Transcript, rows_of

__all__ = [
    "MASKED_COLUMNS",
    "PROTOCOLS",
    "PhaseRequest",
    "Cohort",
    "ClientUpdates",
    "SessionFailure",
    "PreparedUnits",
    "Protocol",
    "SessionResult",
    "Transcript",
    "failing",
    "rows_of",
]
