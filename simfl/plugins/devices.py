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
from simfl.devices.profiles import PROFILE_COLUMNS, read_profiles

__all__ = [
    "AVAILABILITY", "Availability", "Available", "COMPUTATION", "Computation", "Computing", "FAILURE", "Failing",
    "Failure", "PROFILE_COLUMNS", "read_profiles",
]  # fmt: skip
