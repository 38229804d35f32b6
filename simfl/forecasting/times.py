"""When the rounds of a log ended."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.audit.delimited import DELIMITERS
from simfl.audit.log import Log, label_word
from simfl.core.errors import SimflError, suggestion
from simfl.results.folder import ResultsFolder

NAMES = ("time", "timestamp", "date", "datetime", "time_s")
ROUNDS = ("round",)
CALENDAR_S = 10**8
"""Plain numbers from here on are seconds since 1970."""

Floats = NDArray[np.float64]

BYTES_NAMES = ("bytes",)


def round_times(
    path: Path, log: Log, round_column: str | None = None, time_column: str | None = None
) -> tuple[NDArray[np.float64] | None, bool]:
    """The last time of each round of a log in seconds, (J,), None where it has none; and whether they are dates.

    Raises:
        SimflError: the named column is not there, or holds no times.
        IntegrityError: the table of a results folder is damaged.
    """
    import pandas

    if path.is_dir():
        table = pandas.read_csv(ResultsFolder.open(path).file("rounds.csv"))
        times = table["time_s"].to_numpy(dtype=float)
        return (times, False) if len(times) == len(log.rounds) and times[-1] > 0 else (None, False)
    table = table_of(path)
    if table is None:
        if time_column:
            raise SimflError(f"{path}: a matrix has no column of times")
        return None, False
    time = column_of(path, table.columns, time_column, NAMES)
    rounds = column_of(path, table.columns, round_column, ROUNDS)
    if time is None or rounds is None:
        return None, False
    seconds, dated = _seconds(path, table[time])
    last = pandas.Series(seconds).groupby(table[rounds].map(round_word).to_numpy()).max()
    by_round = last.reindex([str(label) for label in log.rounds]).to_numpy(dtype=float)
    if np.isnan(by_round).any():
        raise SimflError(f"{path}: round {log.rounds[int(np.argmax(np.isnan(by_round)))]} has no time")
    if (np.diff(by_round) < 0).any():
        raise SimflError(f"{path}: round {log.rounds[int(np.argmax(np.diff(by_round) < 0)) + 1]} ends before the one "
                         "before it; rounds must be in order of time")  # fmt: skip
    return by_round, dated


def table_of(path: Path) -> Any:
    """The log as a table of words; None where it is a matrix."""
    import pandas

    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return None
    if suffix in (".parquet", ".pq"):
        return pandas.read_parquet(path)
    if suffix in (".jsonl", ".ndjson", ".json"):
        return pandas.read_json(path, lines=True, dtype=False, convert_dates=False)
    with open(path, encoding="utf-8-sig", newline="") as file:
        line = file.readline()
    delimiter = max(DELIMITERS, key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))
    return pandas.read_csv(path, sep=delimiter, dtype=str, encoding="utf-8-sig", skipinitialspace=True)


def round_word(value: object) -> str:
    """A cell of the rounds' column as :func:`simfl.audit.read` takes it, so that 1.0 is round 1."""
    return label_word(value).strip()


def column_of(path: Path, header: Any, name: str | None, usual: tuple[str, ...]) -> str | None:
    """The column of that name, or the first with a usual one.

    Raises:
        SimflError: the named column is not there.
    """
    names = [str(column) for column in header]
    if name is not None:
        if name not in names:
            raise SimflError(f"{path}:1: no column '{name}'{suggestion(name, names)}")
        return name
    return next((column for column in names if column.strip().lower() in usual), None)


def _seconds(path: Path, column: Any) -> tuple[NDArray[np.float64], bool]:
    import pandas

    numbers = pandas.to_numeric(column, errors="coerce")
    if numbers.notna().all():
        return numbers.to_numpy(dtype=float), bool(numbers.min() >= CALENDAR_S)
    try:
        dates = pandas.to_datetime(column, utc=True, format="ISO8601")
    except (ValueError, TypeError, OverflowError):
        raise SimflError(f"{path}: the column '{column.name}' holds neither seconds nor dates such as "
                         "2026-03-01T14:30:00Z") from None  # fmt: skip
    return (dates - pandas.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy(dtype=float), True


def date(seconds: float) -> str:
    """Seconds since 1970 as a date and time of day, UTC."""
    return str(np.datetime64(int(seconds), "s")).replace("T", " ")[:16]


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
        total: Floats = np.cumsum(moved)
        return total


def _resample(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    return rng.choice(values, count, p=rng.dirichlet(np.ones(len(values))))


def bytes_of_rounds(
    path: Path, log: Log, round_column: str | None = None, bytes_column: str | None = None
) -> Floats | None:
    """The bytes that each round of a log has moved, both ways, (J,); None where it does not say.

    Raises:
        SimflError: the named column is not there, or holds no numbers of bytes.
        IntegrityError: the table of a results folder is damaged.
    """
    import pandas

    if path.is_dir():
        table = pandas.read_csv(ResultsFolder.open(path).file("rounds.csv"))
        total: Floats = (table["bytes_down"] + table["bytes_up"]).to_numpy(dtype=float)
        return total if len(total) == len(log.rounds) and total.any() else None
    entries = table_of(path)
    if entries is None:
        if bytes_column:
            raise SimflError(f"{path}: a matrix has no column of bytes")
        return None
    name = column_of(path, entries.columns, bytes_column, BYTES_NAMES)
    rounds = column_of(path, entries.columns, round_column, ROUNDS)
    if name is None or rounds is None:
        return None
    numbers = pandas.to_numeric(entries[name], errors="coerce")
    wrong = (numbers.isna() | (numbers < 0) | np.isinf(numbers)).to_numpy()
    if wrong.any():
        if bytes_column is None:
            return None  # it may mean something else
        value = entries[name].fillna("an empty cell").iloc[int(wrong.argmax())]
        raise SimflError(f"{path}: '{value}' in column '{name}' is no number of bytes, e.g. 1048576")
    by_round = numbers.groupby(entries[rounds].map(round_word).to_numpy()).sum()
    values: Floats = by_round.reindex([str(label) for label in log.rounds]).fillna(0.0).to_numpy(dtype=float)
    return values if values.any() else None
