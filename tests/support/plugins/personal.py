"""A client variant: the last layer is private, and only the coordinates that moved most are sent."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.clients import CLIENTS, UPDATE, ClientAlgorithm, LocalPass, LocalResult, PayloadPart, Upload


@CLIENTS("private_head")
@dataclass(frozen=True)
class PrivateHead(ClientAlgorithm):
    """Each client keeps its last ``kept`` parameters; of the rest it sends what exceeds ``threshold``."""

    kept: int = 10
    threshold: float = 1e-3

    sends = UPDATE, PayloadPart("the coordinates that moved most", "mask", instead="client: plain")
    partial = True
    dense = False
    sized_by_training = True

    def begin(self, context):
        start = context.download.model.copy()
        if "head" in context.state:
            start[-self.kept :] = context.state["head"]
        return LocalPass(start)

    def end(self, context, local_pass, delta, steps, rate):
        trained = local_pass.start + delta
        change = trained - context.download.model
        holds = np.abs(change) > self.threshold
        holds[-self.kept :] = False
        jobs = context.state.get("jobs", np.zeros(1, dtype=np.int64)) + 1
        upload = Upload(np.where(holds, change, 0).astype(np.float32), mask=holds, mask_bytes=4 * int(holds.sum()))
        return LocalResult(upload, {"head": trained[-self.kept :], "jobs": jobs})

    def bytes_down(self, dense, state):
        return dense - 4 * self.kept

    def personal(self, model, state):
        if "head" not in state:
            return None
        return np.concatenate([model[: -self.kept], state["head"]])
