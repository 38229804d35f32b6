"""A client variant: the last layer is private, and only the coordinates that moved most are sent."""

from dataclasses import dataclass

import numpy as np

from simfl.payload import UPDATE, Part, Upload
from simfl.variant import CLIENTS, Begun, ClientVariant, Done


@CLIENTS("private_head")
@dataclass(frozen=True)
class PrivateHead(ClientVariant):
    """Each client keeps its last ``kept`` parameters; of the rest it sends what exceeds ``threshold``."""

    kept: int = 10
    threshold: float = 1e-3

    sends = UPDATE, Part("the coordinates that moved most", "mask", instead="client: plain")
    partial = True
    dense = False
    sized_by_training = True

    def begin(self, visit):
        start = visit.download.model.copy()
        if "head" in visit.own:
            start[-self.kept :] = visit.own["head"]
        return Begun(start)

    def end(self, visit, begun, delta, steps, rate):
        trained = begun.start + delta
        change = trained - visit.download.model
        holds = np.abs(change) > self.threshold
        holds[-self.kept :] = False
        jobs = visit.own.get("jobs", np.zeros(1, dtype=np.int64)) + 1
        upload = Upload(np.where(holds, change, 0).astype(np.float32), mask=holds, mask_bytes=4 * int(holds.sum()))
        return Done(upload, {"head": trained[-self.kept :], "jobs": jobs})

    def bytes_down(self, dense, own):
        return dense - 4 * self.kept

    def personal(self, model, own):
        if "head" not in own:
            return None
        return np.concatenate([model[: -self.kept], own["head"]])
