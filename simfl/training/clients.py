"""Variants of local training that add something to the gradient."""

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from simfl.registry import Registry

__all__ = ["CLIENTS", "ClientVariant", "FedProx", "PlainSgd", "Scaffold"]

CLIENTS = Registry("client")


class ClientVariant(Protocol):
    """What the learner reads.

    Attributes:
        proximal: mu of the term mu/2 * |x - x(downloaded)|^2 added to the local loss.
        control_variates: gradients are corrected by the difference of the server's and the client's variate.
    """

    proximal: float
    control_variates: bool


@CLIENTS("plain")
@dataclass(frozen=True)
class PlainSgd:
    """Nothing is added."""

    proximal = 0.0
    control_variates = False


@CLIENTS("fedprox")
@dataclass(frozen=True)
class FedProx:
    """A proximal term keeps the local model near the downloaded one. Reference: Li et al. 2020 (MLSys)."""

    mu: Annotated[float, Field(ge=0, le=1e6, description="weight of the proximal term; 0 = plain")]

    control_variates = False

    @property
    def proximal(self) -> float:
        return self.mu


@CLIENTS("scaffold")
@dataclass(frozen=True)
class Scaffold:
    """Control variates correct the clients' drift; messages are twice as large.

    Reference: Karimireddy et al. 2020, algorithm 1 with option II for the variates.
    """

    proximal = 0.0
    control_variates = True
