"""A client variant: the last layer is private, and only the coordinates that moved most are sent."""

from dataclasses import dataclass

import numpy as np

from simfl.variant import CLIENTS, Begun, ClientVariant, Done


@CLIENTS("private_head")
@dataclass(frozen=True)
class PrivateHead(ClientVariant):
    """Each client keeps its last ``private`` parameters; of the rest it sends what exceeds ``threshold``."""

    private: int = 10
    threshold: float = 1e-3

    partial = True
    dense = False
    sized_by_training = True

    def begin(self, visit):
        start = visit.downloaded.copy()
        if "head" in visit.own:
            start[-self.private :] = visit.own["head"]
        return Begun(start)

    def end(self, visit, begun, delta, steps, rate):
        trained = begun.start + delta
        change = trained - visit.downloaded
        holds = np.abs(change) > self.threshold
        holds[-self.private :] = False
        jobs = visit.own.get("jobs", np.zeros(1, dtype=np.int64)) + 1
        return Done(np.where(holds, change, 0).astype(np.float32), {"head": trained[-self.private :], "jobs": jobs},
                    holds=holds)  # fmt: skip

    def bytes_down(self, dense, own):
        return dense - 4 * self.private

    def bytes_up(self, dense, own, done):
        return 8 * int(done.holds.sum())

    def personal(self, model, own):
        if "head" not in own:
            return None
        return np.concatenate([model[: -self.private], own["head"]])
