"""Anybody's arrays: an .npz file with x_train, y_train, x_test and y_test, perhaps with the client of each sample."""

import io
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath, load_cached
from simfl.core.types import Arrays
from simfl.learning.data.base import DATA, Dataset, Outline
from simfl.learning.data.image_arrays import (
    Layout,
    broken,
    channel_axis,
    channels_last,
    check_channels,
    check_ids,
    check_labels,
    check_tokens,
    class_labels,
    image_arrays,
    standardise,
)
from simfl.learning.data.limits import check_classes, check_values

NEEDED = ("x_train", "y_train", "x_test", "y_test")
NAMES = (
    NEEDED,
    ("X_train", "y_train", "X_test", "y_test"),
    ("train_x", "train_y", "test_x", "test_y"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("train_data", "train_labels", "test_data", "test_labels"),
)
"""What the four arrays are called, the last but one by MedMNIST."""

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

    MedMNIST's names train_images, train_labels, test_images and test_labels are understood, too. Images are (n, height,
    width) or have an axis of channels, first or last. They are scaled to mean 0 and variance 1 per channel, features
    per column, by the training part. An array ``label_names`` is optional, and so are ``client`` and ``client_test``:
    whose each sample is, a whole number or a text, for the partition ``natural``.
    """

    path: Annotated[DataPath, Field(description="the file")]
    tokens: Annotated[
        bool, Field(description="samples are tokens (n, length) of 0, 1, 2, ... and the class is the next; no scaling")
    ] = False
    channels: Layout = field(default=None, metadata=SINCE_LATER)

    example = {"path": "arrays.npz"}

    def outline(self, setting: ScenarioView) -> Outline:
        return npz_outline(self._path(setting), self.tokens, self.channels)

    def _path(self, setting: ScenarioView) -> Path:
        path = Path(setting.file(self.path))
        if not path.is_file():
            raise MissingError(f"learning.data.path: {path} not found")
        return path

    by_seed = False

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        path = self._path(setting)
        arrays = load_cached(
            f"npz v3 {self.tokens} {self.channels}",
            [path],
            lambda: ready_arrays(read_npz(path), path, self.tokens, self.channels),
        )
        return dataset_of(arrays, npz_notes(path, self.tokens, self.channels))


def dataset_of(arrays: Arrays, notes: Sequence[str] = ()) -> Dataset:
    """The data set of arrays that are ready for training, see :func:`ready_arrays`, and of ``client``, if known."""
    x_train, y_train, x_test, y_test = (arrays[part] for part in NEEDED)
    owners, test_owners = ({"client": arrays[name]} if name in arrays else {} for name in CLIENTS)
    names = tuple(arrays["label_names"].tolist())
    return Dataset(x_train, y_train, x_test, y_test, names, owners, test_owners, tuple(notes))


def read_npz(path: Path) -> Arrays:
    """The four arrays of a data set, and the optional ones that are there; pickled objects are refused.

    Raises:
        ScenarioError: it is no such file, damaged, too large, or an array is missing.
    """
    members, _ = _members(path)
    npz_headers(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[member.removesuffix(".npy")] for name, member in members.items()}
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ScenarioError:
    return broken(path, f"is not a readable .npz file ({' '.join(str(error).split())})")


def npz_headers(path: Path) -> dict[str, Header]:
    """What the file says about the arrays of a data set, without reading them.

    Raises:
        ScenarioError: it is no such file, promises more than can be read, or an array is missing.
    """
    members, others = _members(path)
    try:
        with zipfile.ZipFile(path) as file:
            headers = {name: _header(file, member) for name, member in members.items()}
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if missing := [name for name in NEEDED if name not in headers]:
        known = sorted([name.removesuffix(".npy") for name in members.values()] + others)
        raise broken(path, f"has no array {' or '.join(missing)}; it has {', '.join(known) or 'none'}")
    if pickled := [name for name, header in headers.items() if header.dtype.hasobject]:
        why = "holds Python objects; store numbers, or texts as numpy.array(..., dtype=str)"
        raise broken(path, f"is not a readable .npz file ({pickled[0]} {why})")
    values = sum(prod(headers[name].shape) for name in ("x_train", "x_test"))
    check_values(values, sum(prod(shape) * dtype.itemsize for shape, dtype in headers.values()), path)
    return headers


def _members(path: Path) -> tuple[dict[str, str], list[str]]:
    """The file's name of each array of a data set, and the arrays that are none.

    Raises:
        ScenarioError: it is no such file.
    """
    try:
        with zipfile.ZipFile(path) as file:
            places = {name.removesuffix(".npy"): name for name in file.namelist()}
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    names = next((names for names in NAMES if all(name in places for name in names)), NEEDED)
    called = dict(zip(NEEDED, names, strict=True)) | {name: name for name in OPTIONAL}
    members = {name: places[place] for name, place in called.items() if place in places}
    return members, [name for name, member in places.items() if member not in members.values()]


def npz_notes(path: Path, tokens: bool, channels: str | None) -> list[str]:
    """How a file's images are read, and what it holds beside the data set, in words."""
    called, others = _members(path)
    shape = npz_headers(path)["x_train"].shape
    notes = []
    if called["x_train"] != "x_train.npy":
        notes.append(f"{path.name}: the training part is {called['x_train'].removesuffix('.npy')}, the test part "
                     f"{called['x_test'].removesuffix('.npy')}")  # fmt: skip
    if len(shape) == 4 and not tokens:
        end = "first" if channel_axis(shape, channels, path) == 1 else "last"
        notes.append(f"{path.name}: samples of shape {shape[1:]} are images with their channels {end}")
    if others:
        why = "a data set has a training and a test part, client, client_test and label_names"
        notes.append(f"{path.name}: not read: {', '.join(others)} ({why})")
    return notes


def npz_outline(path: Path, tokens: bool = False, channels: str | None = None) -> Outline:
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
            arrays = _members(path)[0]
            with np.load(path, allow_pickle=False) as file:
                parts = [
                    arrays[name].removesuffix(".npy") for name in (("y_train", "x_train") if tokens else NEEDED[1:2])
                ]
                classes = 1 + max(int(file[part].max()) for part in parts)
        except UNREADABLE as error:
            raise _unreadable(path, error) from error
    check_classes(classes, path)
    if tokens:
        return Outline(train[1:], classes, tokens)
    if len(train) < 4:
        return Outline((1, *train[1:]) if len(train) == 3 else train[1:], classes)
    first = channel_axis(train, channels, path) == 1
    return Outline(train[1:] if first else (train[3], *train[1:3]), classes)


def _header(file: zipfile.ZipFile, member: str) -> Header:
    with file.open(member) as stream:
        start = io.BytesIO(stream.read(MAX_HEADER))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(start)
    return Header(shape, dtype)


NAMED = "name them in an array label_names"


def ready_arrays(
    arrays: Arrays, what: object, tokens: bool = False, channels: str | None = None, named: str = NAMED
) -> Arrays:
    """Checks and scales the arrays of a data set: the four, perhaps ``label_names``, ``client`` and ``client_test``.

    Args:
        arrays: as they are stored.
        what: where, for messages.
        tokens: samples are tokens.
        channels: where images have their axis of channels, if somebody says so.
        named: how to say that many different labels are classes.

    Raises:
        ScenarioError: they are no data set, or do not fit together.
    """
    check_channels(arrays["x_train"], channels, what)
    owners = {name: arrays[name] for name in CLIENTS if name in arrays}
    for name, ids in owners.items():
        check_ids(ids, len(arrays["x_train" if name == "client" else "x_test"]), f"{what}: {name}")
    labels = {name: class_labels(arrays[name], f"{what}: {name}") for name in ("y_train", "y_test")}
    if not tokens and "label_names" not in arrays:
        count = len(np.unique(labels["y_train"]))
        check_classes(count, f"{what}: y_train", len(labels["y_train"]) + len(labels["y_test"]), named)
    return _ready_samples(arrays | labels, what, tokens, channels) | owners


def _ready_samples(arrays: Arrays, what: object, tokens: bool, channels: str | None) -> Arrays:
    x_train, y_train, x_test, y_test = (arrays[name] for name in NEEDED)
    if y_train.dtype.kind not in "iu" or y_train.ndim != 1 or not len(y_train):
        raise broken(what, f"y_train is {y_train.dtype} of shape {y_train.shape}, not a list of whole numbers")
    if arrays.get("label_names", y_train).ndim != 1:
        raise broken(what, "label_names is not a list")
    most = max(int(y_train.max()), int(x_train.max(initial=0))) if tokens else int(y_train.max())
    classes = len(arrays["label_names"]) if "label_names" in arrays else most + 1
    check_classes(classes, what)
    names = arrays.get("label_names", np.arange(classes)).astype(str)
    for name in ("x_train", "x_test"):
        if arrays[name].dtype.kind not in "fiub" or not np.isfinite(arrays[name]).all():
            raise broken(what, f"{name} holds values that are no finite numbers")
    if tokens:
        check_tokens((x_train, x_test), classes, what)
    elif x_train.ndim > 2:
        x_train, x_test = (channels_last(x, channels, what) for x in (x_train, x_test))
        return image_arrays(x_train, y_train, x_test, y_test, classes, what) | {"label_names": names}
    if x_train.ndim != 2 or x_test.shape[1:] != x_train.shape[1:] or not len(x_test):
        raise broken(what, f"x_train and x_test of shapes {x_train.shape} and {x_test.shape} do not fit together")
    if not x_train.shape[1]:
        raise broken(what, "its samples have no features")
    x_train, x_test = (x.astype(np.int64) for x in (x_train, x_test)) if tokens else standardise(x_train, x_test)
    y_train, y_test = (check_labels(y, classes, len(x), what) for y, x in ((y_train, x_train), (y_test, x_test)))
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test, "label_names": names}
