"""Jobs under way as named arrays, for checkpoints."""

import numpy as np

from simfl.agents.client import Flight
from simfl.agents.state import Arrays
from simfl.types import Job

__all__ = ["Unit", "flights_of", "saved"]


class Unit:
    """Jobs whose updates are aggregated together or not at all.

    Attributes:
        members: the jobs.
        missing: how many have not delivered yet.
    """

    __slots__ = ("members", "missing")

    def __init__(self, members: list[Flight]) -> None:
        self.members = members
        self.missing = sum(flight.heard < 0 for flight in members)


TIMES = ("download_s", "compute_s", "reply_s", "leg_ends_s", "received_s", "ended_s")
NUMBERS = ("leg", "serial", "heard", "lives")


def saved(flights: list[Flight]) -> Arrays:
    """The flights, in their order, as arrays of n values."""
    units: dict[int, int] = {}
    return {
        "job": np.array([flight.job[:3] for flight in flights], dtype=np.int64).reshape(-1, 3),
        "started_s": np.array([flight.job.started_at for flight in flights], dtype=np.float64),
        "unit": np.array([units.setdefault(id(flight.unit), len(units)) for flight in flights], dtype=np.int64),
        **{name: np.array([getattr(flight, name) for flight in flights], dtype=np.float64) for name in TIMES},
        **{name: np.array([getattr(flight, name) for flight in flights], dtype=np.int64) for name in NUMBERS},
    }


def flights_of(state: Arrays, size_bytes: int) -> list[Flight]:
    """What :func:`saved` was given, the units in which they belong together included."""
    flights = []
    for (job, client, version), started in zip(state["job"].tolist(), state["started_s"].tolist(), strict=True):
        flights.append(Flight(Job(job, client, version, started), 0.0, 0.0, 0.0, True, size_bytes))
    for name in (*TIMES, *NUMBERS):
        for flight, value in zip(flights, state[name].tolist(), strict=True):
            setattr(flight, name, bool(value) if name == "lives" else value)
    members: dict[int, list[Flight]] = {}
    for flight, unit in zip(flights, state["unit"].tolist(), strict=True):
        members.setdefault(unit, []).append(flight)
    for group in members.values():
        whole = Unit(group)
        for flight in group:
            flight.unit = whole
    return flights
