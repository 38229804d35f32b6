"""Anybody's arrays: an .npz file with x_train, y_train, x_test and y_test, perhaps with the client of each sample."""

import io
import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath, load_cached
from simfl.core.types import Arrays
from simfl.learning.data.base import DATA, Dataset, Outline
from simfl.learning.data.image_arrays import broken, check_ids, check_labels, check_tokens, image_arrays, standardise
from simfl.learning.data.limits import check_classes, check_values

NEEDED = ("x_train", "y_train", "x_test", "y_test")
CLIENTS = ("client", "client_test")
OPTIONAL = ("label_names", *CLIENTS)
MAX_HEADER = 2**16
UNREADABLE = (
    OSError, ValueError, EOFError, AttributeError, KeyError, NotImplementedError, RuntimeError, SyntaxError, TypeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What zipfile and numpy raise about damaged, encrypted or unknown archives."""


class Header(NamedTuple):
    """An array as its file announces it."""

    shape: tuple[int, ...]
    dtype: np.dtype


@DATA("npz")
@dataclass(frozen=True)
class Npz:
    """An .npz file with x_train, y_train, x_test, y_test; 2-D samples are features, 3-D and 4-D ones images.

    Images are (n, height, width[, channels]). Images are scaled to mean 0 and variance 1 per channel, features
    per column, by the training part. An array ``label_names`` is optional, and so are ``client`` and ``client_test``:
    whose each sample is, a whole number or a text, for the partition ``natural``.
    """

    path: Annotated[DataPath, Field(description="the file")]
    tokens: Annotated[
        bool, Field(description="samples are tokens (n, length) of 0, 1, 2, ... and the class is the next; no scaling")
    ] = False

    example = {"path": "arrays.npz"}

    def outline(self, setting: ScenarioView) -> Outline:
        return npz_outline(self._path(setting), self.tokens)

    def _path(self, setting: ScenarioView) -> Path:
        path = Path(setting.file(self.path))
        if not path.is_file():
            raise MissingError(f"learning.data.path: {path} not found")
        return path

    by_seed = False

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        path = self._path(setting)
        arrays = load_cached(f"npz v2 {self.tokens}", [path], lambda: _decode(path, self.tokens))
        x_train, y_train, x_test, y_test = (arrays[part] for part in NEEDED)
        owners, test_owners = ({"client": arrays[name]} if name in arrays else {} for name in CLIENTS)
        return Dataset(x_train, y_train, x_test, y_test, tuple(arrays["label_names"].tolist()), owners, test_owners)


def read_npz(path: Path) -> Arrays:
    """The four arrays of a data set, and the optional ones that are there; pickled objects are refused.

    Raises:
        ScenarioError: it is no such file, damaged, too large, or an array is missing.
    """
    headers = npz_headers(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in headers}
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ScenarioError:
    return broken(path, f"is not a readable .npz file ({' '.join(str(error).split())})")


def npz_headers(path: Path) -> dict[str, Header]:
    """What the file says about the arrays of a data set, without reading them.

    Raises:
        ScenarioError: it is no such file, promises more than can be read, or an array is missing.
    """
    try:
        with zipfile.ZipFile(path) as file:
            members = {name.removesuffix(".npy"): name for name in file.namelist()}
            headers = {name: _header(file, members[name]) for name in (*NEEDED, *OPTIONAL) if name in members}
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if missing := [name for name in NEEDED if name not in headers]:
        raise broken(path, f"has no array {' or '.join(missing)}; it has {', '.join(sorted(members)) or 'none'}")
    if pickled := [name for name, header in headers.items() if header.dtype.hasobject]:
        why = "holds Python objects; store numbers, or texts as numpy.array(..., dtype=str)"
        raise broken(path, f"is not a readable .npz file ({pickled[0]} {why})")
    values = sum(prod(headers[name].shape) for name in ("x_train", "x_test"))
    check_values(values, sum(prod(shape) * dtype.itemsize for shape, dtype in headers.values()), path)
    return headers


def npz_outline(path: Path, tokens: bool = False) -> Outline:
    """Shape and classes of a data set; only its labels (and tokens) are read.

    Raises:
        ScenarioError: the arrays do not fit together.
    """
    headers = npz_headers(path)
    lengths = {name: header.shape[:1] for name, header in headers.items()}
    if lengths["x_train"] != lengths["y_train"] or lengths["x_test"] != lengths["y_test"]:
        raise broken(path, f"samples and labels differ in number: {lengths}")
    train, test = headers["x_train"].shape, headers["x_test"].shape
    if not 2 <= len(train) <= 4 or train[1:] != test[1:] or not (prod(train) and prod(test)):
        raise broken(path, f"x_train and x_test of shapes {train} and {test} do not fit together")
    if "label_names" in headers:
        classes = prod(headers["label_names"].shape)
    else:
        try:
            with np.load(path, allow_pickle=False) as file:
                classes = 1 + max(
                    int(file[name].max()) for name in (("y_train", "x_train") if tokens else ("y_train",))
                )
        except UNREADABLE as error:
            raise _unreadable(path, error) from error
    check_classes(classes, path)
    if tokens:
        return Outline(train[1:], classes, tokens)
    channels = train[3:] or (1,)
    return Outline((*channels, *train[1:3]) if len(train) > 2 else train[1:], classes)


def _header(file: zipfile.ZipFile, member: str) -> Header:
    with file.open(member) as stream:
        start = io.BytesIO(stream.read(MAX_HEADER))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(start)
    return Header(shape, dtype)


def _decode(path: Path, tokens: bool) -> Arrays:
    """The arrays of the data set, ready for training."""
    arrays = read_npz(path)
    owners = {name: arrays[name] for name in CLIENTS if name in arrays}
    for name, ids in owners.items():
        check_ids(ids, len(arrays["x_train" if name == "client" else "x_test"]), f"{path}: {name}")
    return _decode_samples(arrays, path, tokens) | owners


def _decode_samples(arrays: Arrays, path: Path, tokens: bool) -> Arrays:
    x_train, y_train, x_test, y_test = (arrays[name] for name in NEEDED)
    if y_train.dtype.kind not in "iu" or y_train.ndim != 1 or not len(y_train):
        raise broken(path, f"y_train is {y_train.dtype} of shape {y_train.shape}, not a list of whole numbers")
    if arrays.get("label_names", y_train).ndim != 1:
        raise broken(path, "label_names is not a list")
    most = max(int(y_train.max()), int(x_train.max(initial=0))) if tokens else int(y_train.max())
    classes = len(arrays["label_names"]) if "label_names" in arrays else most + 1
    check_classes(classes, path)
    names = arrays.get("label_names", np.arange(classes)).astype(str)
    for name in ("x_train", "x_test"):
        if arrays[name].dtype.kind not in "fiub" or not np.isfinite(arrays[name]).all():
            raise broken(path, f"{name} holds values that are no finite numbers")
    if tokens:
        check_tokens((x_train, x_test), classes, path)
    elif x_train.ndim > 2:
        return image_arrays(x_train, y_train, x_test, y_test, classes, path) | {"label_names": names}
    if x_train.ndim != 2 or x_test.shape[1:] != x_train.shape[1:] or not len(x_test):
        raise broken(path, f"x_train and x_test of shapes {x_train.shape} and {x_test.shape} do not fit together")
    if not x_train.shape[1]:
        raise broken(path, "its samples have no features")
    x_train, x_test = (x.astype(np.int64) for x in (x_train, x_test)) if tokens else standardise(x_train, x_test)
    y_train, y_test = (check_labels(y, classes, len(x), path) for y, x in ((y_train, x_train), (y_test, x_test)))
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test, "label_names": names}
