"""From a table with a label column to features: text columns one-hot, numbers scaled, by the training part."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from simfl.learning.data.base import Dataset
from simfl.learning.data.images import broken
from simfl.learning.data.scale import standardised

__all__ = ["encode"]


def encode(train: Any, test: Any, label: str, files: tuple[object, object]) -> Dataset:
    """A data set from two pandas data frames with the same columns.

    A text column becomes one column of 0 and 1 for each value that the training part has (a missing value is a value
    of its own; a value that only the test part has is all 0); its raw values stay available to the ``natural``
    partition. Numbers are scaled to mean 0 and variance 1. Classes are the label's values in sorted order.

    Args:
        train: training rows; their index counts the rows of the file from 0, for messages.
        test: test rows.
        label: the column to predict.
        files: the files of both parts, for messages. Cut from one file, a rare label may be in the test part only.

    Raises:
        ScenarioError: no such label column, a missing or infinite number, or (two files) a test label that the
            training part never has.
    """
    if label not in train.columns:
        raise broken(files[0], f"has no column '{label}'; it has {', '.join(map(str, train.columns))}")
    for part, file, name in zip((train, test), files, ("training", "test"), strict=True):
        if not len(part):
            raise broken(file, f"has no {name} rows")
        if part[label].isna().any():
            raise broken(file, f"row {_first(part[label].isna())} has no label")
    labels = [part[label].astype(str) for part in (train, test)]
    names = np.unique(np.concatenate(labels[: 2 if files[0] == files[1] else 1]).astype(str))
    y_train, y_test = (_codes(part, names) for part in labels)
    if (y_test < 0).any():
        strange = labels[1].to_numpy()[np.argmax(y_test < 0)]
        raise broken(files[1], f"the test part has the label '{strange}', which the training part never has")
    features = [column for column in train.columns if column != label]
    if not features:
        raise broken(files[0], "has no column besides the label")
    pairs, groups = [], {}
    for column in features:
        if _is_number(train[column]) and _is_number(test[column]):
            pairs.append(standardised(_numbers(train[column], files[0]), _numbers(test[column], files[1])))
        else:
            texts = [part[column].astype("string").fillna("?") for part in (train, test)]
            groups[str(column)] = texts[0].to_numpy(dtype=str)
            values = np.unique(groups[str(column)])
            pairs.append(tuple(_one_hot(_codes(text, values), len(values)) for text in texts))
    x_train, x_test = (np.concatenate([pair[part] for pair in pairs], axis=1) for part in (0, 1))
    return Dataset(x_train, y_train, x_test, y_test, tuple(names.tolist()), groups)


def _is_number(column: Any) -> bool:
    return column.dtype.kind in "iufb"


def _numbers(column: Any, file: object) -> np.ndarray:
    values = column.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        wrong = column.isna() | np.isinf(values)
        raise broken(file, f"column '{column.name}', row {_first(wrong)}: no finite number")
    return values[:, None]


def _first(wrong: Any) -> int:
    """The row of the file, counted from 1, in which a column of truth values is first true."""
    return int(wrong.idxmax()) + 1


def _codes(texts: Any, values: Sequence[str] | np.ndarray) -> np.ndarray:
    """Position of each text in the sorted values, or -1."""
    texts = texts.to_numpy(dtype=str)
    place = np.minimum(np.searchsorted(values, texts), len(values) - 1)
    return np.where(values[place] == texts, place, -1).astype(np.int64)


def _one_hot(codes: np.ndarray, width: int) -> np.ndarray:
    return (codes[:, None] == np.arange(width)).astype(np.float32)
