"""A protocol of three phases besides the upload: masks are advertised, shared with everybody, and taken off again.

It hides nothing from colluding clients; what it shows is the seam. Vectors are summed as whole numbers of
2^-16, exactly.
"""

from dataclasses import dataclass

import numpy as np

from simfl.plugins import Aggregate, Column
from simfl.plugins.secagg import (
    PROTOCOLS,
    ClientUpdates,
    PhaseRequest,
    PreparedUnits,
    Protocol,
    SessionFailure,
    SessionResult,
)

SCALE = 2**16


@PROTOCOLS("three_phases")
@dataclass(frozen=True)
class ThreePhases(Protocol):
    """Each client gives its mask to all others of its cohort; one survivor is enough to take all masks off."""

    deadline_s: float = 1e6

    shows_updates = False
    covers = frozenset({"update", "samples"})
    phases = ("advertise", "share", "unmask")
    columns = (Column("helpers", "Helpers", "count", "Clients that answered the last phase.", 1, None),)

    def prepare(self, cohort, streams):
        everybody = cohort.units.ravel()
        known = yield PhaseRequest("advertise", everybody, 32, 32, deadline_s=self.deadline_s)
        if not known.any():
            return SessionFailure("advertise: nobody answered")
        shared = np.zeros(len(everybody), dtype=bool)
        shared[known] = yield PhaseRequest("share", everybody[known], 100, 100, 0.25, deadline_s=self.deadline_s)
        if not shared.reshape(cohort.units.shape).all(axis=1).any():
            return SessionFailure("share: no unit is whole")
        return PreparedUnits(shared.reshape(cohort.units.shape).all(axis=1))

    def recover(self, cohort, uploaded, prepared, streams):
        kept = uploaded.all(axis=1)
        if not kept.any():
            return SessionFailure("upload: no unit is whole", tolerated=0)
        helpers = cohort.units[uploaded]
        answered = yield PhaseRequest("unmask", helpers, 8, 8 * cohort.dimension, deadline_s=self.deadline_s)
        row = {"helpers": int(answered.sum())}
        if not answered.any():
            return SessionFailure("unmask: nobody answered", row, tolerated=0)
        return SessionResult(kept, row=row)

    def add(self, done: SessionResult, given: ClientUpdates, streams) -> Aggregate:
        masks = [streams("mask", job.id).integers(-(2**62), 2**62, given.vectors.shape[1]) for job in given.jobs]
        whole = np.rint(given.weights[:, None] * given.vectors.astype(np.float64) * SCALE).astype(np.int64)
        with np.errstate(over="ignore"):
            sent = [row + mask for row, mask in zip(whole, masks, strict=True)]
            total = np.sum(sent, axis=0) - np.sum(masks, axis=0)
        vector = (total / SCALE / given.divisor(given.weights)).astype(np.float32)
        return Aggregate(vector, given.clients, given.row, step=1 / SCALE)
