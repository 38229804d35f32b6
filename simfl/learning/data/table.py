"""From a table with a label column to features: text columns one-hot, numbers scaled, by the training part."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.base import Dataset
from simfl.learning.data.image_arrays import broken, standardise
from simfl.learning.data.limits import MAX_CATEGORIES, check_classes, check_values

MAX_CHARACTERS = 1000
"""Of a text: all texts of a column take as much room as the longest."""


def encode(
    train: Any, test: Any, label: str, files: tuple[object, object], mean: bool = False, regression: bool = False
) -> Dataset:
    """A data set from two pandas data frames with the same columns.

    A text column becomes one column of 0 and 1 for each value that the training part has (a missing value is a value
    of its own; a value that only the test part has is all 0); its raw values stay available to the ``natural``
    partition. Numbers are scaled to mean 0 and variance 1. Classes are the label's values in sorted order.

    Args:
        train: training rows; their index counts the rows of the file from 0, for messages.
        test: test rows.
        label: the column to predict.
        files: the files of both parts, for messages. Cut from one file, a rare label may be in the test part only.
        mean: missing numbers have the mean of the training part.
        regression: the label is a number, which is not scaled, and no class.

    Raises:
        ScenarioError: no such label column, a missing or infinite number, a test label that the training part (another
            file) never has, or more texts, classes or numbers than are taken.
    """
    if label not in train.columns:
        raise broken(files[0], f"has no column '{label}'; it has {', '.join(map(str, train.columns))}")
    y_train, y_test, names = (_targets if regression else _labels)(train, test, label, files)
    columns = [column for column in train.columns if column != label]
    if not columns:
        raise broken(files[0], "has no column besides the label")
    for column in columns:
        if is_number(train[column]) != is_number(test[column]) and not any(
            p[column].isna().all() for p in (train, test)
        ):
            kinds = " and ".join("numbers" if is_number(part[column]) else "texts" for part in (train, test))
            why = f"column '{column}' holds {kinds} in the training and the test part"
            raise broken(files[1], f"{why}; write categories: [{column}] if all are names")
    texts = {c: _texts(c, train, test, files) for c in columns if not (is_number(train[c]) and is_number(test[c]))}
    x_train, x_test = _features(train, test, columns, texts, files, mean)
    groups, test_groups = ({str(column): text[part] for column, text in texts.items()} for part in (0, 1))
    return Dataset(x_train, y_train, x_test, y_test, names, groups, test_groups)


def _labels(
    train: Any, test: Any, label: str, files: tuple[object, object]
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """The classes of both parts and their names."""
    _require_labels(train, test, label, files)
    rows, values = zip(*(part[label].factorize() for part in (train, test)), strict=True)  # few texts, not one a row
    labels = [each.to_series().astype(str) for each in values]
    _check_length(labels, label, files)
    names = np.unique(np.concatenate(labels[: 2 if files[0] == files[1] else 1]).astype(str))
    check_classes(len(names), f"{files[0]}: column '{label}'")
    y_train, y_test = (_codes(texts.to_numpy(dtype=str), names)[row] for texts, row in zip(labels, rows, strict=True))
    if (y_test < 0).any():
        strange = labels[1].iloc[rows[1][np.argmax(y_test < 0)]]
        raise broken(files[1], f"the test part has the label '{strange}', which the training part never has")
    return y_train, y_test, tuple(names.tolist())


def _require_labels(train: Any, test: Any, label: str, files: tuple[object, object]) -> None:
    for part, file, name in zip((train, test), files, ("training", "test"), strict=True):
        if not len(part):
            raise broken(file, f"has no {name} rows")
        if part[label].isna().any():
            raise broken(file, f"row {_first(part[label].isna())} has no label")


def _targets(
    train: Any, test: Any, label: str, files: tuple[object, object]
) -> tuple[NDArray[np.float32], NDArray[np.float32], tuple[str, ...]]:
    """The labels of both parts as numbers, and one name for all."""
    _require_labels(train, test, label, files)
    for part, file in zip((train, test), files, strict=True):
        if not is_number(part[label]):
            raise broken(file, f"column '{label}' holds texts, and regression: true takes numbers")
    y_train, y_test = (_numbers(part[label], file, None)[:, 0] for part, file in zip((train, test), files, strict=True))
    for values, file in zip((y_train, y_test), files, strict=True):
        if np.abs(values).max(initial=0.0) > np.finfo(np.float32).max:
            raise broken(file, f"column '{label}' has a number that 32 bits cannot hold; give it in another unit")
    return y_train.astype(np.float32), y_test.astype(np.float32), ("target",)


def _features(
    train: Any,
    test: Any,
    columns: Sequence[Any],
    texts: dict[Any, list[np.ndarray]],
    files: tuple[object, object],
    mean: bool,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The features of both parts: those columns whose ``texts`` are given one-hot, the others scaled."""
    known_texts = {column: np.unique(text[0]) for column, text in texts.items()}
    for column, known in known_texts.items():
        if len(known) > MAX_CATEGORIES:
            why = f"each becomes a column of 0 and 1; at most {MAX_CATEGORIES:,} are taken: drop it"
            raise broken(files[0], f"column '{column}' has {len(known):,} different texts, {why}")
    width = len(columns) - len(known_texts) + sum(map(len, known_texts.values()))
    check_values((len(train) + len(test)) * width, 0, files[0])
    x_train, x_test = (np.zeros((len(part), width), dtype=np.float32) for part in (train, test))
    start = 0
    for column in columns:
        if column in known_texts:
            for x, text in zip((x_train, x_test), texts[column], strict=True):
                code = _codes(text, known_texts[column])
                known = np.flatnonzero(code >= 0)  # the others are texts that the training part never has
                x[known, start + code[known]] = 1
            start += len(known_texts[column])
        else:
            filler = float(train[column].mean()) if mean else None
            pair = (_numbers(part[column], file, filler) for part, file in zip((train, test), files, strict=True))
            x_train[:, [start]], x_test[:, [start]] = standardise(*pair)
            start += 1
    return x_train, x_test


def _texts(column: Any, train: Any, test: Any, files: tuple[object, object]) -> list[np.ndarray]:
    """A column of both parts as arrays of texts, "?" where it is empty."""
    both = [part[column].astype("string").fillna("?") for part in (train, test)]
    _check_length(both, column, files)
    return [part.to_numpy(dtype=str) for part in both]


def is_number(column: Any) -> bool:
    """Whether a column of a data frame holds numbers or truth values."""
    return column.dtype.kind in "iufb"


def _numbers(column: Any, file: object, filler: float | None) -> np.ndarray:
    values = (column if filler is None else column.fillna(filler)).to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        wrong = column.isna() | np.isinf(values)
        keys = "; write missing: {rows: drop} or {rows: mean}" if column.isna().any() and filler is None else ""
        raise broken(file, f"column '{column.name}', row {_first(wrong)}: no finite number{keys}")
    return values[:, None]


def _first(wrong: Any) -> int:
    """The row of the file, counted from 1, in which a column of truth values is first true."""
    return int(wrong.idxmax()) + 1


def _check_length(texts: Sequence[Any], column: str, files: tuple[object, object]) -> None:
    for part, file in zip(texts, files, strict=True):
        if (longest := int(part.str.len().max())) > MAX_CHARACTERS:
            raise broken(file, f"column '{column}' has a text of {longest:,} characters; at most {MAX_CHARACTERS:,}")


def _codes(texts: NDArray[np.str_], values: NDArray[np.str_]) -> NDArray[np.int64]:
    """Position of each text in the sorted values, or -1."""
    place = np.minimum(np.searchsorted(values, texts), len(values) - 1)
    return np.where(values[place] == texts, place, -1).astype(np.int64)
