"""Weights as words: what a double cannot tell from another number is refused, not made equal to it."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.privacy.multiround.weight_reading import LARGEST

DIGITS = 17
"""Significant digits that tell every double from all others."""

NO_WEIGHT = "no weight; give one to every row, or leave the column out"
MORE_DIGITS = f"the weight differs from another one only beyond the {DIGITS} digits that are read"

Lines = tuple[str, NDArray[np.int64]]
"""What stands before the number of a row in a message, and the numbers of some rows."""


def read_weights(lines: Lines, column: Any) -> NDArray[np.float64]:
    """The weights of a pandas Series of words, (n,).

    Raises:
        SimflError: one is missing, no finite number from 0 to the largest valid one, or so small that it would be 0.
    """
    import pandas

    refuse_rows(lines, (column.str.strip() == "").to_numpy(), NO_WEIGHT)
    weight = pandas.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    refuse_rows(lines, np.isnan(weight), "the weight is not a number")
    refuse_rows(lines, np.isinf(weight), "the weight is not finite")
    refuse_rows(lines, weight < 0, "the weight is negative; the smallest valid one is 0")
    refuse_rows(lines, weight > LARGEST, f"the weight is too large; the largest valid one is {LARGEST}")
    zero = weight == 0
    if zero.any():
        zero[zero] = column[zero].str.contains("^[^eE]*[1-9]", regex=True).to_numpy(dtype=bool)
        refuse_rows(lines, zero, "the weight is so small that it would be read as 0")
    return weight


def refuse_rows(lines: Lines, wrong: NDArray[np.bool_], message: str) -> None:
    """
    Raises:
        SimflError: a row is wrong; the message names the first one.
    """
    if wrong.any():
        raise SimflError(f"{lines[0]}{lines[1][np.argmax(wrong)]}: {message}")


class LongWeights:
    """Remembers which weights have more digits than a double, to notice two that it cannot tell apart."""

    def __init__(self) -> None:
        self._count = 0
        self._marks: list[tuple[int, NDArray[np.int64] | None]] = []

    def add(self, column: Any) -> None:
        """Takes in a chunk of words, a pandas Series (n,) of numbers."""
        import pandas

        marks = None
        some = (column.str.len() > DIGITS + 1).to_numpy(dtype=bool)  # the digits and a point
        if some.any():
            codes, words = pandas.factorize(column[some].to_numpy())
            mark = np.array([_mark(word) for word in words], dtype=np.int64)
            if mark.any():
                self._count += int(np.count_nonzero(mark[codes]))
                marks = np.zeros(len(column), dtype=np.int64)
                marks[some] = mark[codes]
        self._marks.append((len(column), marks))

    def equal_but_written_otherwise(self, weight: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of the weights of all chunks, (n,), are as doubles equal to one that has more digits, or others."""
        clash = np.zeros(len(weight), dtype=bool)
        if not self._count:
            return clash
        marks = np.concatenate([np.zeros(n, dtype=np.int64) if some is None else some for n, some in self._marks])
        order = np.lexsort((marks, weight))
        weight, marks = weight[order], marks[order]
        clash[order[1:]] = (weight[1:] == weight[:-1]) & (marks[1:] != marks[:-1])
        return clash


def _mark(word: str) -> int:
    """A number for each number of more digits than are read; 0 for all others."""
    digits = word.strip().lower().partition("e")[0].replace(".", "").lstrip("+-0")
    if len(digits) <= DIGITS:
        return 0
    number = Decimal(word.strip())
    return hash(number) if len(digits.rstrip("0")) > DIGITS else 0
