"""Sessions in which clients confirm a round to one another, before they send anything and before a sum is opened.

What they check is said in :mod:`simfl.selection.verifiable`; here is what it takes. Before the model goes out each
client is told of the round and signs what it was told (``confirm``); the model comes with the receipts of the others in
its unit. When the updates are there each client whose unit is whole is told which clients are summed and signs that
(``agree``), and is shown all these signatures (``show``) before it answers the protocol's last phase.
"""

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Receipts, Units
from simfl.secagg.sessions import PhaseRequest, PreparedUnits, Session


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
) -> Session[bool]:
    """Whether all clients of a sum have signed it, of the units, (n, size), that have arrived, bool (n, size)."""
    summed = units[arrived.all(axis=1)].ravel()
    told_bytes = -(-units.size // 8)
    signed = yield PhaseRequest(
        "agree", summed, told_bytes, receipts.receipt_bytes, receipts.sign_s, deadline_s=deadline_s
    )
    if not signed.all():
        return False
    n = len(summed)
    shown = yield PhaseRequest(
        "show", summed, n * receipts.receipt_bytes, 0, n * receipts.verify_s, deadline_s=deadline_s
    )
    return bool(shown.any())
