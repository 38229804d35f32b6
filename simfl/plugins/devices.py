"""Devices: who is available, how long work takes, who fails."""

from simfl.devices.base import (
    AVAILABILITY,
    COMPUTATION,
    FAILURE,
    Availability,
    Available,
    Computation,
    Computing,
    Failing,
    Failure,
)

__all__ = [
    "AVAILABILITY",
    "COMPUTATION",
    "FAILURE",
    "Availability",
    "Available",
    "Computation",
    "Computing",
    "Failing",
    "Failure",
]
