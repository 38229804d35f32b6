"""What the sessions of protocols ask for and return, looked at where a phase begins and where a session ends."""

from typing import Any

import numpy as np

from simfl.core.errors import PluginError
from simfl.core.registration.said_types import fits, seen_as
from simfl.core.validation import checked_vectors, describe_type
from simfl.secagg.base import Protocol
from simfl.secagg.sessions import PhaseRequest, PreparedUnits, SessionFailure, SessionResult

RESULTS = {"prepare": PreparedUnits, "recover": SessionResult}
"""What sessions with these names return, if they do not fail."""


def checked_upload_bytes(protocol: Protocol, update_bytes: Any, dimension: int) -> Any:
    """The size on the wire of updates of so many bytes, a number or (n,).

    Raises:
        PluginError: it is something else.
    """
    size = protocol.upload_bytes(update_bytes, dimension)
    if np.asarray(size).dtype.kind not in "fiu" or np.shape(size) not in ((), np.shape(update_bytes)):
        why = f"upload_bytes must give a number, or one an update, not {describe_type(size)}"
        raise PluginError(f"secagg '{protocol.name}'", why)
    return size


def check_request(protocol: Protocol, name: str, request: object, clients: int) -> None:
    """
    Raises:
        PluginError: a session of this name cannot ask so many clients for this, or in a phase that nobody has named.
    """
    who = f"secagg '{protocol.name}'"
    if not isinstance(request, PhaseRequest) or not fits(request, PhaseRequest):
        raise PluginError(who, f"{name} must give a PhaseRequest with every yield, not {seen_as(request)}")
    if name in RESULTS and request.kind not in protocol.phases:
        known = ", ".join(protocol.phases) or "none"
        raise PluginError(who, f"{name} asks in a phase {request.kind!r}, which its `phases` ({known}) do not name")
    checked_vectors(request.to, (None,), who, f"{name} asks as to")
    n, last = len(request.to), clients - 1
    if n and not (request.to.dtype.kind in "iu" and 0 <= request.to.min() and request.to.max() <= last):
        raise PluginError(who, f"{name} asks {request.to.tolist()}; clients are 0 to {last}")
    for word, value in zip(PhaseRequest._fields[2:5], request[2:5], strict=True):
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "iuf" or numbers.shape not in ((), (n,)):
            wanted = f"{word} must be a number or {n} numbers"
            raise PluginError(who, f"{name} asks with {describe_type(value)}; {wanted}")
        if not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise PluginError(who, f"{name} asks with {word} {numbers.min():g}; it must be finite, 0 or more")


def check_result(protocol: Protocol, name: str, result: object, units: int | None) -> None:
    """
    Raises:
        PluginError: a session of this name cannot return this.
    """
    who, kind = f"secagg '{protocol.name}'", SessionFailure if isinstance(result, SessionFailure) else RESULTS.get(name)
    if kind is None:
        return
    if not isinstance(result, kind) or not fits(result, kind):
        wanted = f"{RESULTS[name].__name__} or SessionFailure in the end" if name in RESULTS else kind.__name__
        raise PluginError(who, f"{name} must give {wanted}, not {seen_as(result)}")
    if isinstance(result, PreparedUnits | SessionResult):
        checked_vectors(result.kept_units, (units,), who, f"{name} gives as kept_units")
    if isinstance(result, SessionResult) and (result.opened is None) == protocol.sums_units:
        why = "says that it opens the sum of each unit" if protocol.sums_units else "opens the sum of each unit"
        raise PluginError(who, f"{why} (sums_units), and its SessionResult.opened tells otherwise")
