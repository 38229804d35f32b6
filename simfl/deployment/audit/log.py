"""A participation log as a matrix with labels, and how much of one is read at most."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from simfl.plugins import SimflError, printable

ROLES = ("round", "client", "weight", "time", "bytes")
"""What columns of a log are read as."""


class Limits:
    """What a log may hold; a file made to exhaust the memory is refused before it does."""

    ENTRIES = 10**8
    LABELS = 10**7
    LETTERS = 200
    CELLS = 10**8
    COLUMNS = 10**5
    INFLATED = 2**31
    LINE = 2**24


@dataclass(frozen=True)
class Log:
    """Who was aggregated in which round.

    Attributes:
        matrix: scipy CSR array, shape (J, N): weights, 0 where a client took no part.
        rounds: J labels, in order of time.
        doubles: the weights are known to be doubles with all their digits.
        strong: the strong guarantee that the run itself has printed, of all that its clients sent; None = not known.
        beside_sums: of a run's folder, what was seen of single clients beside sums.
        tolerated: of a run's folder, the colluders whom its protocol of secure aggregation tolerates; None = not known.
        samples: of a run's folder that weighs by them, how many each client holds, (N,): weights are without.
        words: in words, how the file was read.
        entries: the rows of the file, where it has one for a client in a round; None of a matrix and of a folder.
        varying: the name of a column of samples that changes within a client, which may be the weight.
    """

    matrix: Any
    rounds: Sequence[Any]
    clients: Sequence[Any]
    unused: tuple[str, ...] = ()
    doubles: bool = False
    strong: int | None = None
    beside_sums: tuple[str, ...] = ()
    tolerated: int | None = None
    samples: Any = None
    words: tuple[str, ...] = ()
    entries: Any = None
    varying: str = ""

    @property
    def used(self) -> Any:
        """The weights by which updates are in the sums to which noise is added, CSR (J, N)."""
        return self.matrix if self.samples is None else self.matrix.tocsr().multiply(self.samples).tocsr()


def label_word(value: object) -> str:
    """A round or client as a word: a whole number without a point, whatever its type (1.0 is 1); none for no number."""
    if value is None or value != value:
        return ""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < Limits.LETTERS:
        if value == value.to_integral_value():
            return str(int(value))
        short = repr(float(value))  # 1.50 is 1.5
        return short if Decimal(short) == value else str(value)
    return str(value)


def plain(label: object, most: int = 60) -> str:
    """A label as one line of a terminal can show it: control characters spelt out, long ones cut."""
    text = printable(str(label))
    return text if len(text) <= most else text[: most - 1] + "…"


def sparse(weights: object, rounds: object, clients: object, shape: tuple[int, int]) -> Any:
    """The matrix of some entries, in the number format of the weights.

    Raises:
        SimflError: it has more rounds or clients than are read.
    """
    from scipy.sparse import csr_array

    if max(shape) > Limits.LABELS:
        raise SimflError(f"{max(shape)} rounds or clients are more than the {Limits.LABELS} that are read")
    matrix = csr_array((np.asarray(weights), (rounds, clients)), shape=shape)
    matrix.eliminate_zeros()
    return matrix


def check_weights(values: Any, path: Path, first: int = 0, largest: float = np.inf) -> Any:
    """Finite numbers from 0 to the largest valid one, or a message that names the first other one; rows count from
    ``first``.

    Raises:
        SimflError: there is another one.
    """
    for wrong, why in (
        (~np.isfinite(values) | (values < 0), "is not a finite number of at least 0"),
        (values > largest, f"is too large; the largest valid one is {largest}"),
    ):
        if wrong.any():
            place = np.argwhere(wrong)[0]
            where = f"round {first + place[0]}, client {place[1]}" if len(place) == 2 else "an entry"
            raise SimflError(f"{path}: {where}: weight {values[tuple(place)]:g} {why}")
    return values
