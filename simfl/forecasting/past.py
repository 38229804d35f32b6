"""The past of a deployment: who was in which sum, and when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.audit.log import Log
from simfl.audit.reading import read
from simfl.core.errors import SimflError
from simfl.forecasting.times import round_times
from simfl.privacy.multiround.classes import strong_guarantee

CELLS = 10**8
"""Rounds times clients that are worked with at most."""
SPARSE = 4
"""Numbered rounds are filled up with empty ones, unless they would be this many times as many."""


@dataclass(frozen=True)
class Past:
    """The rounds of a log.

    Attributes:
        rows: bool (J, N): who was in each sum; rounds that summed nobody are there, too.
        matrix: the same with weights, scipy CSR (J, N).
        rounds, clients: their labels.
        times_s: seconds at which each round ended, (J,); None where the log has no times.
        dated: the seconds are since 1970; else since the log's beginning.
        varying: a client's weight varies from round to round.
        doubles: the weights are known to be doubles with all their digits.
    """

    rows: NDArray[np.bool_]
    matrix: Any
    rounds: Sequence[Any]
    clients: Sequence[Any]
    times_s: NDArray[np.float64] | None = None
    dated: bool = False
    varying: bool = False
    doubles: bool = False

    @property
    def weights(self) -> NDArray[np.float64]:
        """Each client's weight in coming sums, (N,): its own, 1 where it was in no sum; unlike all where they vary."""
        if self.varying:
            return 1 + (1 + np.arange(len(self.clients))) / 2**20
        largest = self.matrix.max(axis=0).toarray().ravel()
        return np.where(largest > 0, largest, 1.0)

    @property
    def numbered(self) -> bool:
        """Whether rounds are whole numbers without a gap, so that coming ones have numbers, too."""
        return all(isinstance(label, int) for label in self.rounds)

    def label(self, ahead: int) -> Any:
        """What the round after so many coming ones is called, from 0 on."""
        return self.rounds[-1] + 1 + ahead if self.numbered else f"+{ahead + 1}"

    def until(self, rounds: int) -> "Past":
        """The first rounds only."""
        times = None if self.times_s is None else self.times_s[:rounds]
        return Past(self.rows[:rounds], self.matrix[:rounds], self.rounds[:rounds], self.clients, times, self.dated,
                    self.varying, self.doubles)  # fmt: skip


def read_past(path: Path | str, columns: Mapping[str, str] | None = None) -> Past:
    """Reads a log in any of the audit's formats; ``columns`` may also name the ``time``.

    Raises:
        SimflError: it is none, has too few rounds to say anything, or is of a run whose server saw more than sums.
    """
    roles = dict(columns or {})
    time = roles.pop("time", None)
    log = read(path, roles or None)
    if log.strong is not None and strong_guarantee(log.matrix, log.doubles) > log.strong:
        raise SimflError(f"{path}: its server saw more than sums, so that clients are exposed already; forecast from "
                         "its participation.csv for the sums alone")  # fmt: skip
    return past_of(log, *round_times(Path(path), log, roles.get("round"), time), str(path))


def past_of(log: Log, times_s: NDArray[np.float64] | None = None, dated: bool = False, name: str = "the log") -> Past:
    """The past that a log tells of.

    Raises:
        SimflError: it has fewer than two rounds with a sum, or is too large.
    """
    matrix, rounds = log.matrix.tocsr().astype(np.float64), list(log.rounds)
    if matrix.shape[0] * matrix.shape[1] > CELLS:
        raise SimflError(f"{name}: {matrix.shape[0]} x {matrix.shape[1]} cells; at most {CELLS:,} can be forecast from")
    if np.count_nonzero(np.diff(matrix.indptr)) < 2:
        raise SimflError(f"{name}: fewer than two rounds with a sum say nothing about those to come")
    if all(isinstance(label, int) for label in rounds):
        matrix, rounds, times_s = _with_skipped(matrix, rounds, times_s)
    columns = matrix.tocsc()
    varying = any(np.ptp(part) > 0 for part in np.split(columns.data, columns.indptr[1:-1]) if len(part))
    rows = np.zeros(matrix.shape, dtype=bool)
    rows[matrix.nonzero()] = True
    return Past(rows, matrix, rounds, list(log.clients), times_s, dated, varying, log.doubles)


def _with_skipped(
    matrix: Any, rounds: list[int], times_s: NDArray[np.float64] | None
) -> tuple[Any, list[int], NDArray[np.float64] | None]:
    """With the numbers that are left out, as rounds that summed nobody."""
    from scipy.sparse import csr_array

    count = rounds[-1] - rounds[0] + 1
    if count == len(rounds) or count > SPARSE * len(rounds):
        return matrix, rounds, times_s
    places = np.array(rounds) - rounds[0]
    entries = matrix.tocoo()
    filled = csr_array((entries.data, (places[entries.row], entries.col)), shape=(count, matrix.shape[1]))
    if times_s is not None:
        times_s = np.interp(np.arange(count), places, times_s)
    return filled, list(range(rounds[0], rounds[-1] + 1)), times_s
