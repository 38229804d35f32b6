"""What devices do: availability at a round's start, computation time, failures in the middle of a round."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from simfl.devices import always, bernoulli, computation, correlated, failure, markov, measured, trace
from simfl.devices.base import AVAILABILITY, COMPUTATION, FAILURE, Available, Computing, Failing

__all__ = [
    "AVAILABILITY",
    "COMPUTATION",
    "FAILURE",
    "Available",
    "Computing",
    "Devices",
    "Failing",
    "always",
    "bernoulli",
    "computation",
    "correlated",
    "failure",
    "markov",
    "measured",
    "trace",
]


@dataclass(frozen=True)
class Devices:
    """What the clients' devices do; each part is a choice of its own."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    availability: Annotated[Annotated[Any, AVAILABILITY], Field(description="who is there at a round's start")] = (
        always.Always()
    )
    computation: Annotated[Annotated[Any, COMPUTATION], Field(description="how long local training takes")] = (
        computation.ConstantTime()
    )
    failure: Annotated[Annotated[Any, FAILURE], Field(description="selected clients that die before they deliver")] = (
        failure.NoFailure()
    )
