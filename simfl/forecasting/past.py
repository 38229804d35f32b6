"""The past of a deployment: who was in which sum, and when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.audit.log import Log
from simfl.audit.reading import read, refuse_more_than_sums
from simfl.core.errors import SimflError
from simfl.forecasting.times import bytes_of_rounds, round_times
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix
from simfl.report.live.watched_folder import scenario_of
from simfl.results.folder import ResultsFolder
from simfl.training.base import RULES

if TYPE_CHECKING:
    from pandas import DataFrame

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
        round_bytes: bytes that each round has moved, (J,); None where the log does not say.
    """

    rows: NDArray[np.bool_]
    matrix: Any
    rounds: Sequence[Any]
    clients: Sequence[Any]
    times_s: NDArray[np.float64] | None = None
    dated: bool = False
    varying: bool = False
    doubles: bool = False
    round_bytes: NDArray[np.float64] | None = None

    @property
    def weights(self) -> NDArray[np.float64]:
        """Each client's weight in coming sums, (N,): its own; of one in no sum that of all others, 1 if they differ;
        unlike all where they vary.
        """
        if self.varying:
            return 1 + (1 + np.arange(len(self.clients))) / 2**20
        largest = self.matrix.max(axis=0).toarray().ravel()
        known = largest[largest > 0]
        return np.where(largest > 0, largest, known[0] if known.size and np.ptp(known) == 0 else 1.0)

    @cached_property
    def reading(self) -> ParticipationMatrix:
        """The sums with the exact numbers that their weights were read as, and whether these are sure."""
        return ParticipationMatrix.of(self.matrix, self.doubles)

    @property
    def doubtful(self) -> int:
        """How many rounds hold weights that cannot be read for sure."""
        return int(np.count_nonzero(~self.reading.sure))

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
        moved = None if self.round_bytes is None else self.round_bytes[:rounds]
        return Past(self.rows[:rounds], self.matrix[:rounds], self.rounds[:rounds], self.clients, times, self.dated,
                    self.varying, self.doubles, moved)  # fmt: skip


def read_past(path: Path | str, columns: Mapping[str, str] | None = None, least: int = 2) -> Past:
    """Reads a log in any of the audit's formats; ``columns`` may also name the ``time`` and the ``bytes``.

    Args:
        path: of the log.
        columns: its names of columns, by role.
        least: rounds with a sum that it must have.

    Raises:
        SimflError: it is none, has too few rounds to say anything, or is of a run whose server saw more than sums, or
            does not work in rounds.
    """
    if Path(path).is_dir():
        _check_rounds(Path(path))
    roles = dict(columns or {})
    time, moved = roles.pop("time", None), roles.pop("bytes", None)
    log = read(path, roles or None)
    refuse_more_than_sums(log, path, "forecast from")
    round_bytes = bytes_of_rounds(Path(path), log, roles.get("round"), moved)
    return past_of(log, *round_times(Path(path), log, roles.get("round"), time), str(path), round_bytes, least)


def _check_rounds(path: Path) -> None:
    """
    Raises:
        SimflError: a results folder is of no finished run, or of one without synchronous rounds.
        IntegrityError: its scenario is damaged.
    """
    ResultsFolder.open(path)  # says so if no run has ended here
    data = scenario_of(path).get("training")
    name = str(data.get("name")) if isinstance(data, dict) else ""
    if name in RULES and RULES[name].server != "synchronous":
        raise SimflError(f"{path}: a run of training: {name}, where who comes next depends on who is still at work; "
                         "only synchronous rounds can be forecast (simfl audit says what is known now)")  # fmt: skip


def past_of(
    log: Log,
    times_s: NDArray[np.float64] | None = None,
    dated: bool = False,
    name: str = "the log",
    round_bytes: NDArray[np.float64] | None = None,
    least: int = 2,
) -> Past:
    """The past that a log tells of.

    Raises:
        SimflError: it has fewer rounds with a sum than the least, or is too large.
    """
    matrix, rounds = log.matrix.tocsr().astype(np.float64), list(log.rounds)
    if matrix.shape[0] * matrix.shape[1] > CELLS:
        raise SimflError(f"{name}: {matrix.shape[0]} x {matrix.shape[1]} cells; at most {CELLS:,} can be forecast from")
    if np.count_nonzero(np.diff(matrix.indptr)) < least:
        raise SimflError(f"{name}: fewer than two rounds with a sum say nothing about those to come")
    if all(isinstance(label, int) for label in rounds):
        matrix, rounds, times_s, round_bytes = _with_skipped(matrix, rounds, times_s, round_bytes)
    columns = matrix.tocsc()
    varying = any(np.ptp(part) > 0 for part in np.split(columns.data, columns.indptr[1:-1]) if len(part))
    rows = np.zeros(matrix.shape, dtype=bool)
    rows[matrix.nonzero()] = True
    return Past(rows, matrix, rounds, list(log.clients), times_s, dated, varying, log.doubles, round_bytes)


def _with_skipped(
    matrix: Any,
    rounds: list[int],
    times_s: NDArray[np.float64] | None,
    round_bytes: NDArray[np.float64] | None,
) -> tuple[Any, list[int], NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """With the numbers that are left out, as rounds that summed nobody."""
    from scipy.sparse import csr_array

    count = rounds[-1] - rounds[0] + 1
    if count == len(rounds) or count > SPARSE * len(rounds):
        return matrix, rounds, times_s, round_bytes
    places = np.array(rounds) - rounds[0]
    entries = matrix.tocoo()
    filled = csr_array((entries.data, (places[entries.row], entries.col)), shape=(count, matrix.shape[1]))
    if times_s is not None:
        times_s = np.interp(np.arange(count), places, times_s)
    if round_bytes is not None:
        of_all = np.zeros(count)
        of_all[places] = round_bytes
        round_bytes = of_all
    return filled, list(range(rounds[0], rounds[-1] + 1)), times_s, round_bytes


def past_from_frame(frame: "DataFrame", columns: Mapping[str, str] | None = None) -> Past:
    """The past that a table tells of, with a row for every client in every round, read as the same table in a file.

    Raises:
        SimflError: an entry is impossible; the message names the row of the table, after a heading.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "frame.csv"
        file.write_bytes(frame.to_csv(index=False, lineterminator="\n").encode())
        return read_past(file, columns)
