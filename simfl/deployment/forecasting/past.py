"""The past of a deployment: who was in which sum, and when."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import ParticipationMatrix
from simfl.api.files import ResultsFolder
from simfl.api.scenarios import scenario_of
from simfl.deployment.audit.entries import reading_line
from simfl.deployment.audit.log import Log
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.audit.reading import read, refuse_more_than_sums
from simfl.plugins import Bools, Floats, SimflError
from simfl.plugins.training import RULES

if TYPE_CHECKING:
    from pandas import DataFrame


def round_times(path: Path, log: Log) -> tuple[Floats | None, bool]:
    """The last time of each round of a log in seconds, (J,), None where it has none; and whether they are dates.

    Raises:
        SimflError: the column of times holds none, a round has none, or rounds are in no order of time.
        IntegrityError: the table of a results folder is damaged.
    """
    import pandas

    if path.is_dir():
        table = pandas.read_csv(ResultsFolder.open(path).file("rounds.csv"))
        times = table["time_s"].to_numpy(dtype=float)
        return (times, False) if len(times) == len(log.rounds) and times[-1] > 0 else (None, False)
    by_round, are_dates = (None, False) if log.entries is None else log.entries.times()
    if by_round is None:
        return None, False
    if np.isnan(by_round).any():
        raise SimflError(f"{path}: round {log.rounds[int(np.argmax(np.isnan(by_round)))]} has no time")
    if (np.diff(by_round) < 0).any():
        raise SimflError(f"{path}: round {log.rounds[int(np.argmax(np.diff(by_round) < 0)) + 1]} ends before the one "
                         "before it; rounds must be in order of time")  # fmt: skip
    return by_round, are_dates


class PastTraffic(NamedTuple):
    """What coming rounds are drawn from.

    Attributes:
        client_bytes: of a client in each past sum, the mean over its clients, (sums,).
        idle_bytes: of each past round that summed nobody.
    """

    client_bytes: Floats
    idle_bytes: Floats

    @classmethod
    def of(cls, round_bytes: Floats | None, sizes: NDArray[np.integer]) -> "PastTraffic":
        """That of past rounds; nothing where bytes are not known.

        Args:
            round_bytes: (J,).
            sizes: clients in each sum, (J,).
        """
        if round_bytes is None:
            return cls(np.zeros(0), np.zeros(0))
        return cls(round_bytes[sizes > 0] / sizes[sizes > 0], round_bytes[sizes == 0])

    def draw(self, cardinality: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        """Bytes until the end of each coming round, (H,), with so many clients each; past rounds are drawn with weights
        of their own (the Bayesian bootstrap). NaN where bytes are not known.
        """
        if not len(self.client_bytes):
            return np.full(len(cardinality), np.nan)
        moved = cardinality * _resample(self.client_bytes, len(cardinality), rng)
        if len(self.idle_bytes):
            moved = np.where(cardinality > 0, moved, _resample(self.idle_bytes, len(cardinality), rng))
        return np.cumsum(moved)


def _resample(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    return rng.choice(values, count, p=rng.dirichlet(np.ones(len(values))))


def bytes_of_rounds(path: Path, log: Log, chosen: bool) -> Floats | None:
    """The bytes that each round of a log has moved, both ways, (J,); None where it does not say.

    Raises:
        SimflError: the column that was ``chosen`` holds no numbers of bytes.
        IntegrityError: the table of a results folder is damaged.
    """
    import pandas

    if path.is_dir():
        table = pandas.read_csv(ResultsFolder.open(path).file("rounds.csv"))
        total: Floats = (table["bytes_down"] + table["bytes_up"]).to_numpy(dtype=float)
        return total if len(total) == len(log.rounds) and total.any() else None
    return None if log.entries is None else log.entries.moved_bytes(chosen)


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
        how_read: in words, how the file was read.
    """

    rows: Bools
    matrix: Any
    rounds: Sequence[Any]
    clients: Sequence[Any]
    times_s: Floats | None = None
    dated: bool = False
    varying: bool = False
    doubles: bool = False
    round_bytes: Floats | None = None
    how_read: str = ""

    @property
    def weights(self) -> Floats:
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


def read_past(path: Path | str, options: LogOptions | None = None, least: int = 2) -> Past:
    """Reads a log in any of the audit's formats.

    Args:
        path: of the log.
        options: what is said of it; its columns may also name the ``time`` and the ``bytes``.
        least: rounds with a sum that it must have.

    Raises:
        SimflError: it is none, has too few rounds to say anything, or is of a run whose server saw more than sums, or
            does not work in rounds.
    """
    options = options or LogOptions()
    if Path(path).is_dir():
        _check_rounds(Path(path))
    log = read(path, options=options)
    refuse_more_than_sums(log, path, "forecast from")
    for role in {"time", "bytes"} & options.columns.keys() if log.entries is None else ():
        raise SimflError(f"{path}: a matrix has no column of {role}{'s' if role == 'time' else ''}")
    round_bytes = bytes_of_rounds(Path(path), log, "bytes" in options.columns)
    past = past_of(log, *round_times(Path(path), log), str(path), round_bytes, least)
    return replace(past, how_read=reading_line(log))


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
    times_s: Floats | None = None,
    dated: bool = False,
    name: str = "the log",
    round_bytes: Floats | None = None,
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
    words = [place for place, label in enumerate(rounds) if not isinstance(label, int)]
    first = words[-1] + 1 if words else 0  # rounds of an earlier log may have other names
    if first < len(rounds):
        matrix, rounds, times_s, round_bytes = _with_skipped(matrix, rounds, times_s, round_bytes, first)
    columns = matrix.tocsc()
    varying = any(np.ptp(part) > 0 for part in np.split(columns.data, columns.indptr[1:-1]) if len(part))
    rows = np.zeros(matrix.shape, dtype=bool)
    rows[matrix.nonzero()] = True
    return Past(rows, matrix, rounds, list(log.clients), times_s, dated, varying, log.doubles, round_bytes)


def _with_skipped(
    matrix: Any, rounds: list[Any], times_s: Floats | None, round_bytes: Floats | None, first: int
) -> tuple[Any, list[Any], Floats | None, Floats | None]:
    """With the numbers that are left out, as rounds that summed nobody; rounds before the ``first`` have none."""
    from scipy.sparse import csr_array

    count = first + rounds[-1] - rounds[first] + 1
    if count == len(rounds) or count > SPARSE * len(rounds):
        return matrix, rounds, times_s, round_bytes
    places = np.append(np.arange(first), first + np.array(rounds[first:]) - rounds[first])
    entries = matrix.tocoo()
    filled = csr_array((entries.data, (places[entries.row], entries.col)), shape=(count, matrix.shape[1]))
    if times_s is not None:
        times_s = np.interp(np.arange(count), places, times_s)
    if round_bytes is not None:
        of_all = np.zeros(count)
        of_all[places] = round_bytes
        round_bytes = of_all
    return filled, [*rounds[:first], *range(rounds[first], rounds[-1] + 1)], times_s, round_bytes


def past_from_frame(frame: "DataFrame", options: LogOptions) -> Past:
    """The past that a table tells of, with a row for every client in every round, read as the same table in a file.

    Raises:
        SimflError: an entry is impossible; the message names the row of the table, after a heading.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "frame.csv"
        file.write_bytes(frame.to_csv(index=False, lineterminator="\n").encode())
        return read_past(file, options)
