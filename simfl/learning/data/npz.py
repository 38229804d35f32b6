"""Anybody's arrays: an .npz file with x_train, y_train, x_test and y_test."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.cache import cached
from simfl.errors import MissingError
from simfl.files import DataPath
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.images import broken, check_labels, image_arrays
from simfl.learning.data.scale import standardised
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["Npz", "read_npz"]

NEEDED = ("x_train", "y_train", "x_test", "y_test")


@DATA("npz")
@dataclass(frozen=True)
class Npz:
    """An .npz file with x_train, y_train, x_test, y_test; 2-D samples are features, 3-D and 4-D ones images.

    Images are (n, height, width[, channels]). Images are scaled to mean 0 and variance 1 per channel, features
    per column, by the training part. An array ``label_names`` is optional.
    """

    path: Annotated[DataPath, Field(description="the file")]

    example = {"path": "arrays.npz"}

    def load(self, setting: Setting, streams: Streams) -> Dataset:
        path = Path(setting.file(self.path))
        if not path.is_file():
            raise MissingError(f"learning.data.path: {path} not found")
        arrays = cached("npz v1", [path], lambda: _decode(path))
        return Dataset(**{part: arrays[part] for part in NEEDED}, label_names=tuple(arrays["label_names"].tolist()))


def read_npz(path: Path) -> dict[str, NDArray]:
    """All arrays of the file, the four of a data set among them; pickled objects are refused.

    Raises:
        ScenarioError: it is no such file, damaged, or an array is missing.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise broken(path, f"is not a readable .npz file ({error})") from error
    if missing := [name for name in NEEDED if name not in stored]:
        raise broken(path, f"has no array {' or '.join(missing)}; it has {', '.join(sorted(stored)) or 'none'}")
    return stored


def _decode(path: Path) -> dict[str, NDArray]:
    stored = read_npz(path)
    x_train, y_train, x_test, y_test = (stored[name] for name in NEEDED)
    if y_train.dtype.kind not in "iu" or y_train.ndim != 1 or not len(y_train):
        raise broken(path, f"y_train is {y_train.dtype} of shape {y_train.shape}, not a list of whole numbers")
    classes = len(stored["label_names"]) if "label_names" in stored else int(y_train.max()) + 1
    names = stored.get("label_names", np.arange(classes)).astype(str)
    for name in ("x_train", "x_test"):
        if stored[name].dtype.kind not in "fiub" or not np.isfinite(stored[name]).all():
            raise broken(path, f"{name} holds values that are no finite numbers")
    if x_train.ndim > 2:
        return image_arrays(x_train, y_train, x_test, y_test, classes, path) | {"label_names": names}
    if x_train.ndim != 2 or x_test.shape[1:] != x_train.shape[1:] or not len(x_test):
        raise broken(path, f"x_train and x_test of shapes {x_train.shape} and {x_test.shape} do not fit together")
    x_train, x_test = standardised(x_train, x_test)
    y_train, y_test = (check_labels(y, classes, len(x), path) for y, x in ((y_train, x_train), (y_test, x_test)))
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test, "label_names": names}
