"""Whether the sessions of somebody else's protocol ask for and return what a session can."""

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.core.errors import PluginError
from simfl.core.validation import checked_type, checked_vectors, describe_type
from simfl.secagg.sessions import PhaseRequest, PreparedUnits, SessionFailure, SessionResult
from simfl.training.base import Rule

RESULTS = {"prepare": PreparedUnits, "recover": SessionResult}
"""What sessions with these names return, if they do not fail."""


def check_request(parts: Components[Rule], name: str, request: object) -> None:
    """
    Raises:
        PluginError: what a session of this name yields asks nobody that there is, in a phase that the protocol does not
            name, or with sizes and times that are none.
    """
    protocol = f"secagg '{parts.protocol.name}'"
    checked_type(request, PhaseRequest, protocol, name, "a PhaseRequest with every yield")
    assert isinstance(request, PhaseRequest)
    if name in RESULTS and request.kind not in parts.protocol.phases:
        known = ", ".join(parts.protocol.phases) or "none"
        raise PluginError(
            protocol, f"{name} asks in a phase {request.kind!r}, which its `phases` ({known}) do not name"
        )
    to, last = request.to, parts.clients - 1
    if not isinstance(to, np.ndarray) or to.ndim != 1 or to.dtype.kind not in "iu":
        raise PluginError(protocol, f"{name} must ask clients, int32 of shape (n,), not {describe_type(to)}")
    if to.size and not 0 <= to.min() <= to.max() <= last:
        raise PluginError(
            protocol, f"{name} asks client {to.max() if to.max() > last else to.min()}; there are 0 to {last}"
        )
    for word, value in zip(PhaseRequest._fields[2:5], request[2:5], strict=True):
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "iuf" or numbers.shape not in ((), (len(to),)):
            wanted = f"{word} must be a number or {len(to)} numbers"
            raise PluginError(protocol, f"{name} asks with {describe_type(value)}; {wanted}")
        if not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise PluginError(protocol, f"{name} asks with {word} {numbers.min():g}; it must be finite, 0 or more")


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
