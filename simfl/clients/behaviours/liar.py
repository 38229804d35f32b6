"""Clients that train honestly and lie about themselves, to be selected or to count for more."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, Attacker
from simfl.core.types import Floats


@CLIENT_AGENTS("liar")
@dataclass(frozen=True)
class Liar(Attacker):
    """Reports its number of samples, its losses and how long a job takes it times factors. Knows what it is asked.

    Nobody believes more samples than the largest client holds. What the server measures itself, the time until an
    answer has arrived, is as it is: policies that go by that (Oort's seconds) cannot be lied to about speed.
    """

    losses: Annotated[float, Field(gt=0, description="times the true losses")] = 1.0
    samples: Annotated[float, Field(gt=0, description="times the true number of samples")] = 1.0
    seconds: Annotated[float, Field(gt=0, description="times the true estimate of a job's seconds")] = 1.0

    example = {"losses": 10.0}

    def reports(self, name: str, values: Floats) -> Floats:
        factor = {"loss": self.losses, "loss_rms": self.losses, "samples": self.samples, "estimate_s": self.seconds}
        return values * factor.get(name, 1.0)
