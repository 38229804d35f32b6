"""Local training settings, shared by every rule: what one client does with the model it downloaded."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

__all__ = ["LocalTraining"]

Rate = Annotated[float, Field(gt=0, le=1e6)]


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Mini-batch SGD on the client's own samples, reshuffled every epoch, last partial batch kept."""

    local_epochs: Annotated[int, Field(ge=1, le=10_000, description="passes over the client's samples")] = 1
    batch_size: Annotated[int | None, Field(ge=1, description="samples in a step; null = all")] = 32
    learning_rate: Annotated[Rate, Field(description="the clients' step size")] = 0.1
    decay_at: Annotated[tuple[int, ...], Field(description="rounds at which the learning rate is multiplied")] = ()
    decay: Annotated[Rate, Field(description="factor applied at each round of decay_at")] = 0.1

    def rate(self, version: int) -> float:
        """The learning rate for a model downloaded at ``version``."""
        return self.learning_rate * self.decay ** sum(version >= at for at in self.decay_at)

    def passes(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Passes over its samples that each client's work amounts to, shape (n,); what computation time scales with."""
        return np.full(len(samples), float(self.local_epochs))
