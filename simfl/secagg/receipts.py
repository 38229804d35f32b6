"""Sessions in which clients confirm a round to one another, before they send anything and before a sum is opened.

What they check is said in :mod:`simfl.selection.verifiable`; here is what it takes, but for the signatures of keys,
which protocols send with their keys. Before the model goes out each client is told of the round and signs what it was
told (``confirm``); the model comes with the receipts of the others in its unit. When the updates are there each client
whose unit is whole is told which clients are summed and signs that (``agree``), and everybody who has sent an update is
shown all these signatures (``show``) before it answers the protocol's last phase.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Receipts, Units
from simfl.secagg.sessions import PhaseRequest, PreparedUnits, R, Session


def confirm_units(
    units: Units, prepared: PreparedUnits, receipts: Receipts, deadline_s: float | None
) -> Session[PreparedUnits]:
    """The units, of those that were prepared, whose members have all confirmed; others receive no model."""
    size, kept_units = units.shape[1], prepared.kept_units.copy()
    recipients = units[kept_units].ravel()
    responded = yield PhaseRequest(
        "confirm", recipients, receipts.told_bytes, receipts.receipt_bytes, receipts.sign_s, deadline_s=deadline_s
    )
    kept_units[kept_units] = responded.reshape(-1, size).all(axis=1)
    down_bytes = np.asarray(prepared.down_bytes) + (size - 1) * receipts.receipt_bytes
    compute_s = np.asarray(prepared.compute_s) + (size - 1) * receipts.verify_s
    return PreparedUnits(kept_units, prepared.secret, down_bytes, compute_s)


def confirm_sum(
    units: Units, arrived: NDArray[np.bool_], receipts: Receipts, deadline_s: float | None
) -> Session[NDArray[np.int32]]:
    """Who has sent an update and has seen that all who are summed have signed the sum; nobody if they have not.

    Args:
        units: int32 (n, size).
        arrived: whose updates are there, bool (n, size).
        receipts: what it costs.
        deadline_s: as of a phase.
    """
    summed, senders = units[arrived.all(axis=1)].ravel(), units[arrived]
    set_bytes = -(-units.size // 8)
    signed = yield PhaseRequest(
        "agree", summed, set_bytes, receipts.receipt_bytes, receipts.sign_s, deadline_s=deadline_s
    )
    if not signed.all():
        return senders[:0]
    n, extra_bytes = len(summed), np.where(np.isin(senders, summed), 0, set_bytes)
    shown = yield PhaseRequest(
        "show", senders, extra_bytes + n * receipts.receipt_bytes, 0, n * receipts.verify_s, deadline_s=deadline_s
    )
    return senders[shown]


def answered_by(session: Session[R], clients: NDArray[np.int32]) -> Session[R]:
    """A session whose phases are of these clients only; others are not asked, and do not answer."""
    responded: Any = None
    while True:
        try:
            request = session.send(responded)
        except StopIteration as end:
            result: R = end.value
            return result
        those = np.isin(request.to, clients)
        down, up, seconds = (np.broadcast_to(each, those.shape)[those] for each in request[2:5])
        responded = np.zeros(those.shape, dtype=bool)
        responded[those] = yield request._replace(to=request.to[those], down_bytes=down, up_bytes=up, compute_s=seconds)
