"""An HTTP server whose connections, requests and answers are bounded."""

from simfl.core.http.bounded_server import DEFAULT_LIMITS, ConnectionLimits, check_name, is_loopback, listening
from simfl.core.http.handler import BoundedHandler, Query, RequestError

__all__ = [
    "BoundedHandler", "ConnectionLimits", "DEFAULT_LIMITS", "Query", "RequestError", "check_name", "is_loopback",
    "listening",
]  # fmt: skip
