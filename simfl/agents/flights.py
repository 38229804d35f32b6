"""Jobs under way as named arrays, for checkpoints."""

from collections.abc import Collection
from operator import attrgetter
from typing import Any

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
        tick: number of the selection they come from.
        begun_s: when the protocol began to prepare them, simulated seconds.
        prepared: what that gave; None before it has ended.
        serial: orders what the server has set going, while the unit is prepared.
    """

    __slots__ = ("members", "missing", "tick", "begun_s", "prepared", "serial", "departed")

    def __init__(self, members: list[Flight], begun_s: float) -> None:
        self.members = members
        self.missing = sum(flight.heard < 0 for flight in members)
        self.tick = members[0].job.id >> 32
        self.begun_s = begun_s
        self.prepared: Any = None
        self.serial = 0
        self.departed = False


TIMES = ("job.started_at", "download_s", "compute_s", "reply_s", "arrives_s", "ended_s", "unit.begun_s")
NUMBERS = (
    "job.id", "job.client", "job.version", "lives", "down_bytes", "up_bytes", "serial", "heard",
    "unit.serial", "unit.departed",
)  # fmt: skip


def saved(flights: Collection[Flight]) -> Arrays:
    """The flights, in their order, as arrays of n values."""
    units: dict[int, int] = {}
    n = len(flights)
    return {
        **{name: np.fromiter(map(attrgetter(name), flights), np.float64, n) for name in TIMES},
        **{name: np.fromiter(map(attrgetter(name), flights), np.int64, n) for name in NUMBERS},
        "unit": np.fromiter((units.setdefault(id(flight.unit), len(units)) for flight in flights), np.int64, n),
    }


def flights_of(state: Arrays) -> list[Flight]:
    """What :func:`saved` was given, the units in which they belong together included."""
    flights: list[Flight] = []
    members: dict[int, list[Flight]] = {}
    rows = [dict(zip(state, row, strict=True)) for row in zip(*(state[name].tolist() for name in state), strict=True)]
    for row in rows:
        job = Job(*(row[f"job.{name}"] for name in Job._fields))
        flight = Flight(job, *(row[name] for name in Flight.__slots__[1:4]), bool(row["lives"]), row["down_bytes"],
                        row["up_bytes"])  # fmt: skip
        flight.arrives_s, flight.serial = row["arrives_s"], row["serial"]
        flight.ended_s, flight.heard = row["ended_s"], row["heard"]
        flights.append(flight)
        members.setdefault(row["unit"], []).append(flight)
    for flight, row in zip(flights, rows, strict=True):
        if flight.unit is None:
            unit = Unit(members[row["unit"]], row["unit.begun_s"])
            unit.serial, unit.departed = row["unit.serial"], bool(row["unit.departed"])
            for mate in unit.members:
                mate.unit = unit
    return flights
