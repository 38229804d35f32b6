"""The global model, tuned by each client for itself: the baseline that personal models must beat."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.clients.base import PERSONAL, ClientAlgorithm
from simfl.clients.local_values import LocalContext, LocalPass


@PERSONAL("fine_tune")
@dataclass(frozen=True)
class FineTune(ClientAlgorithm):
    """FedAvg; whenever clients are measured, each first trains the global model on its own samples.

    Nothing of it is kept or sent, and it costs no simulated time. References: Yu et al. 2020 (arXiv 2002.04758);
    its first-order meta-learning relative is Fallah et al. 2020.
    """

    epochs: Annotated[int, Field(ge=1, le=10_000, description="passes over the client's samples")] = 1

    stateless = True
    descends = True

    def tune(self, context: LocalContext) -> LocalPass:
        return LocalPass(context.download.model, epochs=self.epochs)
