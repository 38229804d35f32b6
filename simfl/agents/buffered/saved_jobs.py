"""Jobs under way as named arrays, for checkpoints."""

from collections.abc import Collection
from typing import Any

import numpy as np

from simfl.agents.aggregation.state import Arrays
from simfl.agents.buffered.async_job import AsyncJob
from simfl.core.types import Job


class Unit:
    """Jobs whose updates are aggregated together or not at all.

    Attributes:
        members: the jobs.
        missing: how many have not delivered yet.
        selection_id: number of the selection they come from.
        started_s: when the protocol began to prepare them, simulated seconds.
        secret: what that gave, see :class:`simfl.secagg.sessions.PreparedUnits`; None before it has ended.
        serial: orders what the server has set going, while the unit is prepared.
    """

    __slots__ = ("members", "missing", "selection_id", "started_s", "secret", "serial", "departed")

    def __init__(self, members: list[AsyncJob], started_s: float) -> None:
        self.members = members
        self.missing = len(members)
        self.selection_id = members[0].job.selection
        self.started_s = started_s
        self.secret: Any = None
        self.serial = 0
        self.departed = False


TIMES = ("started_s", "download_s", "compute_s", "reply_s", "arrives_s", "ended_s", "unit_started_s")
NUMBERS = (
    "job", "client", "version", "lives", "down_bytes", "up_bytes", "serial", "received_version", "unit", "prepares",
    "departed",
)  # fmt: skip


def save_jobs(tasks: Collection[AsyncJob]) -> Arrays:
    """The jobs, in their order, as arrays of n rows: ``times`` and ``numbers``."""
    units: dict[int, int] = {}
    times, numbers = [], []
    for each in tasks:
        job, unit = each.job, each.unit
        times.append((job.started_at, each.download_s, each.compute_s, each.reply_s, each.arrives_s, each.ended_s,
                      unit.started_s))  # fmt: skip
        numbers.append((job.id, job.client, job.version, each.lives, each.down_bytes, each.up_bytes, each.serial,
                        each.received_version,
                        units.setdefault(id(unit), len(units)), unit.serial, unit.departed))  # fmt: skip
    return {
        "times": np.array(times, dtype=np.float64).reshape(-1, len(TIMES)),
        "numbers": np.array(numbers, dtype=np.int64).reshape(-1, len(NUMBERS)),
    }


def load_jobs(state: Arrays) -> list[AsyncJob]:
    """What :func:`save_jobs` was given, the units in which they belong together included."""
    tasks: list[AsyncJob] = []
    units: dict[int, Unit] = {}
    for times, numbers in zip(state["times"].tolist(), state["numbers"].tolist(), strict=True):
        started, down, compute, reply, arrives, ended, unit_started = times
        job, client, version, lives, down_bytes, up_bytes, serial, received, place, prepares, departed = numbers
        task = AsyncJob(Job(job, client, version, started), down, compute, reply, bool(lives), down_bytes, up_bytes)
        task.arrives_s, task.serial, task.ended_s, task.received_version = arrives, serial, ended, received
        tasks.append(task)
        if place in units:
            units[place].members.append(task)
        else:
            units[place] = Unit([task], unit_started)
        unit = task.unit = units[place]
        unit.serial, unit.departed = prepares, bool(departed)
        unit.missing = sum(mate.received_version < 0 for mate in unit.members)
    return tasks
