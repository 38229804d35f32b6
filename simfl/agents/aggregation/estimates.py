"""How long a job of each client is expected to take, for policies that assume to know it."""

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import work
from simfl.core.rng import Address
from simfl.learning.base import Sizes
from simfl.training.base import Rule

DRAWS = 8
"""Of network and devices over which is averaged; none of them is a round's."""

FIRST = -2
"""The address of the first of them; the rounds' are 0 or more, and that of what comes before the first is -1."""


def estimate_job_s(parts: Components[Rule]) -> dict[str, NDArray[np.float64]]:
    """``estimate_s``: seconds of download, work and upload, and ``upload_estimate_s``: of the upload, (clients,).

    Means over a few draws; exact where network and computation draw nothing anew in a round. Sizes are those of a dense
    model where they vary, and the work is then one pass; samples are those of version 0.
    """
    clients, learner = np.arange(parts.clients, dtype=np.int32), parts.learner
    dense = Sizes(learner.model_bytes, learner.model_bytes)
    total, upload = np.zeros(parts.clients), np.zeros(parts.clients)
    for draw in range(DRAWS):
        where = Address(FIRST - draw, clients, parts.clients)
        request = work(parts, clients, where, dense if learner.sizes_vary else learner.sizes([]))
        up_s = parts.links.up_s(clients, request.up_bytes, where, "/estimate")
        upload += up_s
        total += parts.links.down_s(clients, request.down_bytes, where, "/estimate") + request.compute_s + up_s
    return {"estimate_s": total / DRAWS, "upload_estimate_s": upload / DRAWS}
