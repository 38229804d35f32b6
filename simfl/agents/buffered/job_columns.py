"""Jobs where nobody looks at single events: columns, so that a million of them cost little."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.state import Arrays
from simfl.agents.buffered.saved_jobs import NUMBERS, TIMES
from simfl.core.types import Job


class JobColumns:
    """Planned jobs and those at work, a place each, in the order in which they depart.

    Args:
        capacity: places to begin with.

    Attributes:
        used: places that hold a job, the first ones.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.used = 0
        self._times = np.full((len(TIMES), capacity), np.nan)
        self._numbers = np.zeros((len(NUMBERS), capacity), dtype=np.int64)
        self._name_rows()

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column of :data:`simfl.agents.buffered.saved_jobs.TIMES` or ``NUMBERS``, (used,); it can be written to."""
        table, i = self._rows[name]
        return table[i, : self.used]

    def append(self, **columns: NDArray[Any]) -> None:
        """More jobs: columns by name, ``job`` among them; the others are empty until they are written to."""
        size = len(columns["job"])
        first, self.used = self.used, self.used + size
        if (lacking := self.used - self._times.shape[1]) > 0:
            more = max(lacking, self._times.shape[1])
            self._times = np.pad(self._times, ((0, 0), (0, more)), constant_values=np.nan)
            self._numbers = np.pad(self._numbers, ((0, 0), (0, more)))
            self._name_rows()
        self._times[:, first : self.used], self._numbers[:, first : self.used] = np.nan, 0
        for name, values in columns.items():
            self[name][first:] = values

    def keep(self, places: NDArray[np.int64]) -> None:
        """Only these, ascending; they come to the first places."""
        self._times[:, : len(places)] = self._times[:, places]
        self._numbers[:, : len(places)] = self._numbers[:, places]
        self.used = len(places)

    def jobs(self, places: NDArray[np.int64] | Sequence[int]) -> list[Job]:
        """What the learner and the tables call these jobs."""
        columns = (self[name][places].tolist() for name in ("job", "client", "version", "started_s"))
        return list(map(Job, *columns))

    def save(self, places: NDArray[np.int64]) -> Arrays:
        """These jobs, as :func:`simfl.agents.buffered.saved_jobs.save_jobs` does: each in a unit of its own."""
        times, numbers = self._times[:, places], self._numbers[:, places]
        constants: dict[str, Any] = {
            "unit": np.arange(len(places)),
            "received_version": -1,
            "prepares": 0,
            "departed": 1,
        }
        for name, values in constants.items():
            numbers[NUMBERS.index(name)] = values
        times[TIMES.index("unit_started_s")] = times[TIMES.index("started_s")]
        times[TIMES.index("ended_s")] = np.nan
        return {"times": np.ascontiguousarray(times.T), "numbers": np.ascontiguousarray(numbers.T)}

    def load(self, state: Arrays) -> None:
        """Appends the jobs that :meth:`save` was given."""
        columns = zip((*TIMES, *NUMBERS), (*state["times"].T, *state["numbers"].T), strict=True)
        self.append(**dict(columns))

    def _name_rows(self) -> None:
        self._rows = {name: (self._times, i) for i, name in enumerate(TIMES)}
        self._rows |= {name: (self._numbers, i) for i, name in enumerate(NUMBERS)}
