"""FedProx: local models stay near the downloaded one."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.clients.base import CLIENTS, ClientAlgorithm
from simfl.clients.local_values import LocalContext, LocalPass


@CLIENTS("fedprox")
@dataclass(frozen=True)
class FedProx(ClientAlgorithm):
    """A proximal term keeps the local model near the downloaded one. Reference: Li et al. 2020 (MLSys)."""

    mu: Annotated[float, Field(ge=0, le=1e6, description="weight of the proximal term; 0 = plain")]

    stateless = True
    descends = True
    example = {"mu": 0.1}

    @property
    def proximal(self) -> float:  # type: ignore[override]  # a constant of other clients
        return self.mu

    def begin(self, context: LocalContext) -> LocalPass:
        return LocalPass(context.download.model, proximal=self.mu)
