"""FedProx: local models stay near the downloaded one."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.variant import CLIENTS, Begun, ClientVariant, Visit

__all__ = ["FedProx"]


@CLIENTS("fedprox")
@dataclass(frozen=True)
class FedProx(ClientVariant):
    """A proximal term keeps the local model near the downloaded one. Reference: Li et al. 2020 (MLSys)."""

    mu: Annotated[float, Field(ge=0, le=1e6, description="weight of the proximal term; 0 = plain")]

    stateless = True
    example = {"mu": 0.1}

    def begin(self, visit: Visit) -> Begun:
        return Begun(visit.download.model, proximal=self.mu)
