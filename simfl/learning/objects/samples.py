"""A user's data set, in any of the usual forms, as arrays.

A part of a data set is a pair ``(X, y)`` of arrays or tensors (or ``(X, y, client)``), a bunch of scikit-learn, a torch
or torchvision data set, or one of Hugging Face; or a list of those, one a client, or a mapping of clients to them. A
whole one is a part, of which some samples are then taken for the test, or a tuple ``(train, test)`` of parts or a
mapping with the keys ``train`` and ``test``. A list is never a training and a test part, not even one of two.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.image_arrays import CHANNELS, check_labels
from simfl.learning.data.limits import MAX_CLASSES, check_values
from simfl.learning.objects.global_seeds import seed_generators

NEEDED = (
    "a pair (X, y) of arrays or tensors, a torch, torchvision or Hugging Face data set, two of them as (train, test)"
    " or a list of them, one a client, is needed"
)


@dataclass(frozen=True)
class Part:
    """Samples as they were given.

    Attributes:
        x: of any numeric type, shape (n, ...); images with their channels first.
        y: labels, shape (n,), whole numbers or texts; or targets, (n, ...).
        names: of the classes, where they are known.
        columns: further values of each sample, shape (n,) each.
        unclear: images may have their channels first or last, and are as they were given.
        of_clients: it was put together from parts, one a client.
        unused: what else was given, by its name.
    """

    x: NDArray[np.number]
    y: NDArray[np.generic]
    names: tuple[str, ...] | None = None
    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    unclear: bool = False
    of_clients: bool = False
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class GivenData:
    """A data set before it is scaled and, where there is no test part, split.

    Attributes:
        x: samples of the training part (or all), shape (n, ...).
        y: their classes, int64 (n,), or targets (n, ...), see :class:`simfl.learning.data.base.Dataset`.
        test: samples and classes of the test part; None = there is none.
        label_names: one name a class.
        columns: what the ``natural`` partition may split by.
    """

    x: NDArray[np.number]
    y: NDArray[Any]
    test: tuple[NDArray[np.number], NDArray[Any]] | None
    label_names: tuple[str, ...]
    columns: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class DetailedData(GivenData):
    """Such a data set about which there is more to say: a class of its own, so that fingerprints of others stay.

    Attributes:
        test_columns: the same of the test part.
        by_client: each client keeps its share of samples for the test.
        unclear: its images may have their channels first or last.
        unused: names of what else was given, parts and columns.
    """

    test_columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    by_client: bool = False
    unclear: bool = False
    unused: tuple[str, ...] = ()


def read_samples(source: Any) -> GivenData:
    """A data set, or what a function without arguments returns, as arrays. Nothing is scaled.

    Raises:
        ValueError: it is none of the known forms, or samples and labels do not fit together.
        ScenarioError: it is too large.
    """
    if inspect.isroutine(source) or isinstance(source, (type, partial)):
        source = _call(source)
    train, test, others = _halves(source)
    parts = [_part(each) for each in (train, test) if each is not None]
    check_values(sum(part.x.size for part in parts), 0, "the data set")
    labels, names = _classes(parts)
    if len(parts) == 2 and parts[0].x.shape[1:] != parts[1].x.shape[1:]:
        shapes = " and ".join(str(list(part.x.shape[1:])) for part in parts)
        raise ValueError(f"training and test samples have different shapes, {shapes}")
    test_part = (parts[1].x, labels[1]) if len(parts) == 2 else None
    unused = (*others, *dict.fromkeys(name for part in parts for name in part.unused))
    unclear, clients = any(part.unclear for part in parts), parts[0].of_clients
    plain = parts[0].x, labels[0], test_part, names, parts[0].columns
    if not unclear and not clients and not unused:
        return GivenData(*plain)
    return DetailedData(*plain, parts[-1].columns if clients and len(parts) == 2 else {}, clients, unclear, unused)


def _call(function: Callable[[], object]) -> object:
    """
    Raises:
        ValueError: it fails.
    """
    with seed_generators(0):
        try:
            return function()
        except Exception as error:  # somebody else's code may raise anything
            why = " ".join(str(error).split())
            raise ValueError(f"calling it without arguments raises {type(error).__name__}: {why}") from error


def _halves(source: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """The training part, or all, the test part or None, and the names of further parts.

    Raises:
        ValueError: there is no training part.
    """
    if isinstance(source, Mapping) and not {"data", "target"} <= source.keys():
        if "train" in source:
            others = tuple(str(name) for name in source if name not in ("train", "test"))
            return source["train"], source.get("test"), others
        if {"test", "val", "valid", "validation"} & source.keys() or _of_clients(source) is None:
            known = ", ".join(map(str, source)) or "none"
            needed = "'train', and 'test' if there are test data, or a data set a client"
            raise ValueError(f"a mapping needs a key {needed} (it has {known})")
    elif isinstance(source, tuple) and len(source) == 2 and not _is_pair(source):
        return source[0], source[1], ()
    return source, None, ()


def _of_clients(source: Any) -> dict[Any, Any] | None:
    """The data set of each client, where there is a list or mapping of them."""
    if isinstance(source, Mapping):
        sets = dict(source) if not {"data", "target"} <= source.keys() else {}
    else:
        listed = isinstance(source, (list, tuple)) and not _is_pair(source)
        sets = dict(enumerate(source)) if listed else {}
    plain = (str, bytes, int, float, type(None))
    return None if not sets or any(_is_array(each) or isinstance(each, plain) for each in sets.values()) else sets


def _join(sets: Mapping[Any, Any]) -> Part:
    """One part of all clients' data sets, which stand in its column ``client`` by their numbers or names.

    Raises:
        ValueError: they do not fit together.
    """
    parts = {}
    for client, source in sets.items():
        try:
            parts[client] = _part(source)
        except ValueError as error:
            raise ValueError(f"data set of client {client}: {error}") from None
    (first, one), *others = parts.items()
    for client, part in others:
        if part.x.shape[1:] != one.x.shape[1:] or part.y.dtype.kind != one.y.dtype.kind or part.names != one.names:
            kinds = (f"{p.y.dtype} labels, samples of shape {list(p.x.shape[1:])}" for p in (one, part))
            raise ValueError(f"data sets of clients {first} and {client} do not fit: {'; '.join(kinds)}")
    if any("client" in part.columns for part in parts.values()):
        raise ValueError("data sets of clients name clients themselves; leave one of the two out")
    numbered = all(isinstance(client, (int, np.integer)) for client in parts)
    ids = np.array(list(parts) if numbered else list(map(str, parts)))
    columns = {"client": np.repeat(ids, [len(part.y) for part in parts.values()])}
    x, y = (np.concatenate(arrays) for arrays in zip(*((part.x, part.y) for part in parts.values()), strict=True))
    unused = tuple(dict.fromkeys(name for part in parts.values() for name in part.unused))
    return Part(x, y, one.names, columns, any(part.unclear for part in parts.values()), True, unused)


def _is_pair(source: Any) -> bool:
    """Whether two things are samples and their labels, not two parts of a data set."""
    return isinstance(source, (tuple, list)) and len(source) in (2, 3) and all(_is_array(each) for each in source)


def _is_array(value: object) -> bool:
    torch, pandas = sys.modules.get("torch"), sys.modules.get("pandas")
    kinds: list[type] = [np.ndarray]
    kinds += [torch.Tensor] if torch is not None else []
    kinds += [pandas.DataFrame, pandas.Series] if pandas is not None else []
    if isinstance(value, list):  # of numbers or texts, or of rows of them; a list of data sets is none
        alike = len({len(np.shape(_array(each))) if _is_array(each) else 0 for each in value[:2]}) == 1
        return bool(value) and alike and not isinstance(value[0], tuple) and all(
            isinstance(each, (int, float, str, np.generic)) or _is_array(each) for each in value[:1]
        )  # fmt: skip
    return isinstance(value, tuple(kinds))


def _part(source: Any) -> Part:
    """
    Raises:
        ValueError: it is none of the known forms.
    """
    if _is_pair(source):
        return _pair(*source)
    if isinstance(source, (list, tuple, dict)) and (sets := _of_clients(source)) is not None:
        return _join(sets)
    if isinstance(source, Mapping) and {"data", "target"} <= source.keys():
        names = source.get("target_names")
        part = _pair(source["data"], source["target"], names=None if names is None else tuple(map(str, names)))
        rest = {name: _array(each) for name, each in source.items() if _is_array(each)}
        alike = [str(name) for name, each in rest.items() if each.shape[:1] == part.y.shape]
        return replace(part, unused=tuple(name for name in alike if name not in ("data", "target")))
    if any(cls.__module__ == "datasets.arrow_dataset" and cls.__name__ == "Dataset" for cls in type(source).__mro__):
        x, y, label_names, columns = _columns_of(source)
        unused = tuple(name for name in columns if name not in OWNERS)
        return Part(_samples(x), _array(y), label_names, columns, _unclear(x), unused=unused)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.utils.data.DataLoader):
        raise ValueError("a DataLoader was given; pass its data set (loader.dataset)")
    if torch is not None and isinstance(source, torch.utils.data.TensorDataset) and len(source.tensors) == 2:
        return _pair(*source.tensors)
    if torch is not None and isinstance(source, torch.utils.data.Dataset):
        return _items(source)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        raise ValueError("a table does not say which column is the label; pass the pair "
                         "(frame.drop(columns=LABEL), frame[LABEL])")  # fmt: skip
    raise ValueError(f"{NEEDED} (got {type(source).__name__})")


def _items(source: Any) -> Part:
    """A torch data set, item by item; what its transforms draw is always the same.

    Raises:
        ValueError: its items are no pairs of a sample and a label, or not all of one shape.
    """
    kind = type(source).__name__
    try:
        count = len(source)
    except TypeError:
        raise ValueError(f"{kind} has no length; a data set with len() and [] is needed") from None
    with seed_generators(0):
        try:
            items = [source[i] for i in range(count)]
            pairs = [(np.asarray(x), np.asarray(y)) for x, y in items]
        except Exception as error:  # somebody else's code may raise anything
            why = " ".join(str(error).split())
            raise ValueError(f"items of {kind} are not pairs (sample, label): {type(error).__name__}: {why}") from error
    if not pairs:
        raise ValueError(f"{kind} has no samples")
    if len(shapes := {x.shape for x, _ in pairs}) > 1:
        raise ValueError(f"samples of {kind} have different shapes, e.g. {' and '.join(map(str, sorted(shapes)[:2]))}")
    x, y = np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    names = next(
        (vars(source)[key] for key in ("classes",) if key in vars(source)), type(source).__dict__.get("classes")
    )
    texts = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return _pair(x, y, names=tuple(names) if texts and names else None)


def _pair(x: object, y: object, client: object = None, names: tuple[str, ...] | None = None) -> Part:
    """
    Raises:
        ValueError: samples and labels do not fit together.
    """
    samples, labels = _samples(original := _array(x)), _array(y)
    columns = {} if client is None else {"client": _array(client)}
    for what, each in (("labels", labels), *columns.items()):
        targets = what == "labels" and _are_targets(labels) and len(labels) == len(samples)
        if each.shape != (len(samples),) and not targets:
            raise ValueError(f"{len(samples)} samples, but {what} of shape {list(each.shape)}")
    return Part(samples, labels, names, columns, _unclear(original))


def _are_targets(y: NDArray[Any]) -> bool:
    """Whether they are no classes: decimals, or whole numbers in several places of a sample."""
    return y.ndim > 0 and (y.dtype.kind == "f" or (y.dtype.kind in "iu" and y.size > len(y)))


def _array(value: Any) -> NDArray[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        here = value.detach().cpu()
        return np.asarray((here.float() if here.dtype == torch.bfloat16 else here).numpy())
    return np.asarray(value)


def _samples(x: NDArray[Any]) -> NDArray[np.number]:
    """Samples (n, ...) of numbers; images get their channels in front.

    Raises:
        ValueError: they are none.
    """
    if x.dtype.kind not in "fiub":
        raise ValueError(f"samples are {x.dtype}, not numbers")
    if x.ndim < 2 or not x.size:
        raise ValueError(f"samples of shape {list(x.shape)}; (n, features), (n, height, width) or the like is needed")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise ValueError("samples hold values that are no finite numbers")
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[3] in CHANNELS and x.shape[1] not in CHANNELS:
        return np.moveaxis(x, 3, 1)
    return x


def _unclear(x: NDArray[Any]) -> bool:
    """Whether samples as they were given are images that may have their channels first or last."""
    return x.ndim == 4 and (x.shape[1] in CHANNELS) == (x.shape[3] in CHANNELS)


def _classes(parts: list[Part]) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """The labels of each part as numbers of classes, and the classes' names; or the targets, and one name for all.

    Raises:
        ValueError: they are neither whole numbers from 0 nor texts, nor finite targets of one shape.
    """
    if len(shapes := {part.y.shape[1:] for part in parts}) > 1:
        raise ValueError(f"targets of training and test part have the shapes {' and '.join(map(str, sorted(shapes)))}")
    both = np.concatenate([part.y for part in parts])
    names = parts[0].names
    if both.dtype.kind in "UO" and all(isinstance(label, str) for label in both.tolist()):
        names = tuple(np.unique(both).tolist())
        return [np.searchsorted(np.asarray(names), part.y.astype(str)).astype(np.int64) for part in parts], names
    if _are_targets(both):
        with np.errstate(over="ignore"):
            targets = [part.y.astype(np.float32 if both.dtype.kind == "f" else np.int64) for part in parts]
        if not both.size or not all(np.isfinite(each).all() for each in targets):
            what = "hold values that are no finite numbers of 32 bits" if both.size else "have no number"
            raise ValueError(f"targets {what}")
        return targets, ("target",)
    if both.dtype.kind not in "iu":
        raise ValueError(f"labels are {both.dtype}, not numbers or texts")
    if both.min() < 0:
        raise ValueError(f"labels reach from {both.min()}; whole numbers from 0 are needed")
    count = max(int(both.max()) + 1, len(names or ()))
    if count > MAX_CLASSES:
        raise ValueError(f"labels reach to {both.max():,}; at most {MAX_CLASSES:,} classes are taken")
    shown = names if names is not None and len(names) == count else tuple(map(str, range(count)))
    return [check_labels(part.y, count, len(part.x), "labels") for part in parts], shown


LABELS = ("label", "labels", "fine_label", "target", "y")
"""Names of columns with labels, where no column is a ClassLabel."""

OWNERS = ("client", "client_id", "user", "user_id", "writer_id", "speaker_id")
"""Names of columns that say to whom a sample belongs, and are no part of it."""


def _columns_of(
    data: Any,
) -> tuple[NDArray[np.generic], NDArray[np.generic], tuple[str, ...] | None, Mapping[str, NDArray[np.generic]]]:
    """Of a ``datasets.Dataset``: samples (n, ...), labels (n,), classes' names, other columns of one value a sample.

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
