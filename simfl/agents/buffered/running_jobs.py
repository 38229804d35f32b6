"""Jobs at work where nobody looks at single events: tuples, so that a million of them cost little."""

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from simfl.agents.aggregation.state import Arrays
from simfl.agents.buffered.saved_jobs import NUMBERS, TIMES
from simfl.core.types import Job


class Planned(NamedTuple):
    """A job before its model goes out; durations in seconds.

    Attributes:
        id, client: see :class:`simfl.core.types.Job`.
        lives: False if the client dies during the computation.
    """

    id: int
    client: int
    download_s: float
    compute_s: float
    reply_s: float
    lives: bool
    down_bytes: int
    up_bytes: int


class Running(NamedTuple):
    """A job at work; they compare by the first two, which is the order in which their answers arrive.

    Attributes:
        arrives_s: when the answer arrives, or the end of the connection, simulated seconds.
        serial: orders the departures.
        version: of the model that went out.
        started_s: when it did, simulated seconds.
        planned: the rest.
    """

    arrives_s: float
    serial: int
    version: int
    started_s: float
    planned: Planned

    @property
    def job(self) -> Job:
        """What the learner and the tables call it."""
        return Job(self.planned.id, self.planned.client, self.version, self.started_s)


def save_running(jobs: Sequence[Running]) -> Arrays:
    """The jobs, in their order, as :func:`simfl.agents.buffered.saved_jobs.save_jobs`: each in a unit of its own."""
    n, planned = len(jobs), [job.planned for job in jobs]
    column = {name: [getattr(job, name) for job in jobs] for name in Running._fields[:-1]}
    column |= {name: [getattr(job, name) for job in planned] for name in Planned._fields}
    column |= {"job": column["id"], "unit_started_s": column["started_s"], "ended_s": [nan] * n}
    column |= {"received_version": [-1] * n, "unit": list(range(n)), "prepares": [0] * n, "departed": [1] * n}
    return {
        "times": np.array([column[name] for name in TIMES], dtype=np.float64).T.copy(),
        "numbers": np.array([column[name] for name in NUMBERS], dtype=np.int64).T.copy(),
    }


def load_running(state: Arrays) -> list[Running]:
    """What :func:`save_running` was given."""
    column = dict(zip(TIMES, state["times"].T.tolist(), strict=True))
    column |= zip(NUMBERS, state["numbers"].T.tolist(), strict=True)
    column |= {"id": column["job"], "lives": [bool(lives) for lives in column["lives"]]}
    planned = map(Planned._make, zip(*(column[name] for name in Planned._fields), strict=True))
    start = (column[name] for name in Running._fields[:-1])
    return list(map(Running._make, zip(*start, planned, strict=True)))
