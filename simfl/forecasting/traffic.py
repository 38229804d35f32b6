"""How many bytes the rounds of a log have moved."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.audit.log import Log
from simfl.core.errors import SimflError
from simfl.forecasting.times import ROUNDS, column_of, round_word, table_of
from simfl.results.folder import ResultsFolder

Floats = NDArray[np.float64]

NAMES = ("bytes",)


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
    name = column_of(path, entries.columns, bytes_column, NAMES)
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
