"""What devices do: availability at a round's start, computation time, failures in the middle of a round."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.storage.data_folder import DataPath
from simfl.devices.base import AVAILABILITY, COMPUTATION, FAILURE, Available, Computing, Failing

__all__ = ["AVAILABILITY", "COMPUTATION", "FAILURE", "Available", "Computing", "Devices", "Failing"]


@dataclass(frozen=True)
class Devices:
    """What the clients' devices do; each part is a choice of its own."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    availability: Annotated[Annotated[Any, AVAILABILITY], Field(description="who is there at a round's start")] = field(
        default_factory=lambda: AVAILABILITY.of("always")
    )
    computation: Annotated[Annotated[Any, COMPUTATION], Field(description="how long local training takes")] = field(
        default_factory=lambda: COMPUTATION.of("constant")
    )
    failure: Annotated[Annotated[Any, FAILURE], Field(description="selected clients that die before they deliver")] = (
        field(default_factory=lambda: FAILURE.of("none"))
    )
    profiles: Annotated[
        DataPath | None,
        Field(
            description="CSV file of devices, beside the scenario file or in the data folder: speed, bandwidths, "
            "latency and availability of each client, by its row or drawn; null = none"
        ),
    ] = field(default=None, metadata=SINCE_LATER)
