"""Jobs under way as named arrays, for checkpoints."""

from collections.abc import Collection
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
        self.missing = len(members)
        self.tick = members[0].job.id >> 32
        self.begun_s = begun_s
        self.prepared: Any = None
        self.serial = 0
        self.departed = False


TIMES = ("started_s", "download_s", "compute_s", "reply_s", "arrives_s", "ended_s", "begun_s")
NUMBERS = (
    "job", "client", "version", "lives", "down_bytes", "up_bytes", "serial", "heard", "unit", "prepares", "departed",
)  # fmt: skip


def saved(flights: Collection[Flight]) -> Arrays:
    """The flights, in their order, as arrays of n rows: ``times`` and ``numbers``."""
    units: dict[int, int] = {}
    times, numbers = [], []
    for each in flights:
        job, unit = each.job, each.unit
        times.append((job.started_at, each.download_s, each.compute_s, each.reply_s, each.arrives_s, each.ended_s,
                      unit.begun_s))  # fmt: skip
        numbers.append((job.id, job.client, job.version, each.lives, each.down_bytes, each.up_bytes, each.serial,
                        each.heard, units.setdefault(id(unit), len(units)), unit.serial, unit.departed))  # fmt: skip
    return {
        "times": np.array(times, dtype=np.float64).reshape(-1, len(TIMES)),
        "numbers": np.array(numbers, dtype=np.int64).reshape(-1, len(NUMBERS)),
    }


def flights_of(state: Arrays) -> list[Flight]:
    """What :func:`saved` was given, the units in which they belong together included."""
    flights: list[Flight] = []
    units: dict[int, Unit] = {}
    for times, numbers in zip(state["times"].tolist(), state["numbers"].tolist(), strict=True):
        started, down, compute, reply, arrives, ended, begun = times
        job, client, version, lives, down_bytes, up_bytes, serial, heard, place, prepares, departed = numbers
        flight = Flight(Job(job, client, version, started), down, compute, reply, bool(lives), down_bytes, up_bytes)
        flight.arrives_s, flight.serial, flight.ended_s, flight.heard = arrives, serial, ended, heard
        flights.append(flight)
        if place in units:
            units[place].members.append(flight)
        else:
            units[place] = Unit([flight], begun)
        unit = flight.unit = units[place]
        unit.serial, unit.departed = prepares, bool(departed)
        unit.missing = sum(mate.heard < 0 for mate in unit.members)
    return flights
