"""Data sets of the library ``datasets`` (extra ``hf``), which is not imported here: who hands one in has done so."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LABELS = ("label", "labels", "fine_label", "target", "y")
"""Names of columns with labels, where no column is a ClassLabel."""

OWNERS = ("client", "client_id", "user", "user_id", "writer_id", "speaker_id")
"""Names of columns that say to whom a sample belongs, and are no part of it."""


def is_data_set(value: object) -> bool:
    """Whether the value is a ``datasets.Dataset``."""
    return any(cls.__module__ == "datasets.arrow_dataset" and cls.__name__ == "Dataset" for cls in type(value).__mro__)


def columns_of(
    data: Any,
) -> tuple[NDArray[np.generic], NDArray[np.generic], tuple[str, ...] | None, Mapping[str, NDArray[np.generic]]]:
    """Samples (n, ...), labels (n,), names of the classes, and the remaining columns of one value a sample.

    The label is the only ClassLabel, or the column called so; the samples are the only image, array or list, or else
    all numbers side by side (a column that names clients is none of them).

    Raises:
        ValueError: it is not clear which column is what; the message names the columns.
    """
    features = dict(data.features)
    kinds = {name: type(feature).__name__ for name, feature in features.items()}
    label = _label(kinds)
    names = vars(features[label]).get("names")
    rest = [name for name in features if name != label]
    sized = [name for name in rest if kinds[name] not in ("Value", "ClassLabel")]
    if len(sized) > 1:
        raise ValueError(f"columns {_names_text(sized)} could all be the samples; keep one with .select_columns()")
    plain = data.with_format(None)
    values = {name: plain[name][:] for name in rest}
    if sized:
        x = np.stack([np.asarray(each) for each in values[sized[0]]])
    else:
        numbers = [name for name in rest if name not in OWNERS and np.asarray(values[name]).dtype.kind in "fiub"]
        if not numbers:
            raise ValueError(f"no column of {_names_text(rest)} holds numbers or images for the samples")
        x = np.stack([np.asarray(values[name]) for name in numbers], axis=1)
        sized = numbers
    columns = {name: np.asarray(values[name]) for name in rest if name not in sized}
    return x, np.asarray(plain[label][:]), None if names is None else tuple(names), columns


def _label(kinds: Mapping[str, str]) -> str:
    classes = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    if len(classes) == 1:
        return classes[0]
    named = [name for name in LABELS if name in kinds]
    if named:
        return named[0]
    if classes:
        raise ValueError(f"columns {_names_text(classes)} could all be the label; rename one to 'label'")
    raise ValueError(f"no column is the label (a ClassLabel, or called 'label'); there are {_names_text(list(kinds))}")


def _names_text(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
