"""Jobs under way as named arrays, for checkpoints."""

from collections.abc import Collection
from operator import attrgetter

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


TIMES = ("job.started_at", "download_s", "compute_s", "reply_s", "leg_ends_s", "received_s", "ended_s")
NUMBERS = ("job.id", "job.client", "job.version", "lives", "leg", "serial", "heard")


def saved(flights: Collection[Flight]) -> Arrays:
    """The flights, in their order, as arrays of n values."""
    units: dict[int, int] = {}
    n = len(flights)
    return {
        **{name: np.fromiter(map(attrgetter(name), flights), np.float64, n) for name in TIMES},
        **{name: np.fromiter(map(attrgetter(name), flights), np.int64, n) for name in NUMBERS},
        "unit": np.fromiter((units.setdefault(id(flight.unit), len(units)) for flight in flights), np.int64, n),
    }


def flights_of(state: Arrays, size_bytes: int) -> list[Flight]:
    """What :func:`saved` was given, the units in which they belong together included."""
    flights, members = [], {}
    columns = zip(*(state[name].tolist() for name in (*NUMBERS, *TIMES, "unit")), strict=True)
    for (
        job,
        client,
        version,
        lives,
        leg,
        serial,
        heard,
        started,
        down,
        compute,
        reply,
        ends,
        received,
        ended,
        unit,
    ) in columns:
        flight = Flight(Job(job, client, version, started), down, compute, reply, bool(lives), size_bytes)
        flight.leg, flight.serial, flight.heard = leg, serial, heard
        flight.leg_ends_s, flight.received_s, flight.ended_s = ends, received, ended
        flights.append(flight)
        members.setdefault(unit, []).append(flight)
    for group in members.values():
        whole = Unit(group)
        for flight in group:
            flight.unit = whole
    return flights
