"""The server of FedLTN."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.plugins.training import SERVER_OPTIMISERS, ServerOptimiser, State

Vector = NDArray[np.float32]


@SERVER_OPTIMISERS("look_ahead")
@dataclass(frozen=True)
class LookAhead(ServerOptimiser):
    """FedLTN's server: a mixture of the clients' mean and of where its own last step points.

    x <- tau mean + (1 - tau)(x + momentum * last step). With share 1 it is plain averaging. Reference: Mugunthan (MIT
    thesis, 2022), chapter 4, algorithm 1 (the listing; the prose has the other sign); the unprinted momentum is that
    of FedACG's code (Kim et al. 2022).
    """

    share: Annotated[float, Field(gt=0, le=1, description="weight of the clients' mean, tau")] = 0.5
    momentum: Annotated[float, Field(ge=0, lt=1, description="share of the last step that is looked ahead, lambda")] = (
        0.85
    )

    def start(self, dimension: int) -> State:
        return {"last": np.zeros(dimension, dtype=np.float32)}

    def step(self, delta: Vector, state: State, rate: float) -> tuple[Vector, State]:
        update = np.float32(rate * self.share) * delta
        if ahead := (1 - self.share) * self.momentum:
            update = update + np.float32(ahead) * state["last"]
        return update, {"last": update}
