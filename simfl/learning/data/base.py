"""What a data set is: arrays in memory, already scaled, split into training and test part."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.objects.shorthand import shorthand

Samples = NDArray[np.float32] | NDArray[np.int64]
"""Samples (n, *shape): numbers as float32, tokens as int64."""


@dataclass(frozen=True)
class Dataset:
    """Samples with their classes, or with the targets of a model that has a loss of its own.

    Attributes:
        x_train: float32, shape (n, *shape): scaled features or normalised images (channels first). Or int64, shape
            (n, length): tokens, each 0 .. classes - 1, whose next one is the class.
        y_train: int64, shape (n,): class of each training sample, 0 .. classes - 1. Or, where they are no classes,
            float32, shape (n, ...), or int64, shape (n, k, ...): the target of each.
        x_test: as x_train, shape (m, *shape).
        y_test: as y_train, shape (m, ...).
        label_names: one name a class; one name without classes.
        columns: what the ``natural`` partition may split by: name -> value of each training sample, shape (n,).
        test_columns: the same of the test samples, shape (m,); some or none of ``columns``.
        notes: what was read and what was not, in words, where files leave something to say.
    """

    x_train: Samples
    y_train: NDArray[Any]
    x_test: Samples
    y_test: NDArray[Any]
    label_names: tuple[str, ...]
    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    test_columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.x_train.shape[1:]

    @property
    def classes(self) -> int:
        return len(self.label_names)

    @property
    def classified(self) -> bool:
        """Whether targets are classes."""
        return self.y_train.dtype.kind == "i" and self.y_train.ndim == 1

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each training sample, (n,); 0 without classes."""
        return self.y_train if self.classified else np.zeros(len(self.y_train), dtype=np.int64)

    def require_classes(self, key: str, why: str) -> None:
        """
        Raises:
            ScenarioError: the targets are no classes, which something named by the key needs.
        """
        if not self.classified:
            kind = f"{self.y_train.dtype} of shape {list(self.y_train.shape[1:])}"
            raise ScenarioError(key, f"{why}; the targets of these data are no classes ({kind} a sample)")

    @property
    def outputs(self) -> int:
        """Numbers of an output that fits the targets: classes, be they of a sample's places, or a target's numbers."""
        if self.y_train.dtype.kind == "f":
            return prod(self.y_train.shape[1:])
        return self.classes if self.classified else 1 + int(max(self.y_train.max(), self.y_test.max()))

    @property
    def tokens(self) -> bool:
        """Whether samples are tokens, not numbers."""
        return self.x_train.dtype.kind == "i"


SubsetField = Annotated[
    int | None, Field(ge=1, description="so many of the training samples, drawn by the seed; null = all")
]


def subset(data: Dataset, samples: int | None, streams: Streams) -> Dataset:
    """The data with so many of the training samples, drawn; scaled as all of them are, with the whole test part.

    Raises:
        ScenarioError: there are fewer.
    """
    if samples is None:
        return data
    if samples > (count := len(data.y_train)):
        raise ScenarioError("samples", f"{samples:,} of {count:,} training samples; the nearest valid value is {count}")
    chosen = np.sort(streams("samples").permutation(count)[:samples])
    columns = {name: values[chosen] for name, values in data.columns.items()}
    note = f"{samples:,} of {count:,} training samples, drawn by the seed (samples); the test part is whole"
    x, y = data.x_train[chosen], data.y_train[chosen]
    return replace(data, x_train=x, y_train=y, columns=columns, notes=(*data.notes, note))


class Outline(NamedTuple):
    """Of data before they are read: the shape of a sample, the number of classes, whether samples are tokens."""

    shape: tuple[int, ...]
    classes: int
    tokens: bool = False


class Data(Plugin, Protocol):
    """A data set's YAML choice.

    Four training and two test samples of three features, in two classes:

    >>> from simfl.learning.data.generated import Synthetic
    >>> choice = Synthetic(samples=4, test_samples=2, shape=(3,), classes=2)
    >>> choice.outline(None)
    Outline(shape=(3,), classes=2, tokens=False)
    >>> data = choice.load(None, Streams(0))
    >>> data.x_train.shape, data.y_train.tolist(), data.x_test.shape, data.label_names
    ((4, 3), [0, 0, 1, 1], (2, 3), ('0', '1'))

    Attributes:
        by_seed: the seed may decide which samples there are, and which of them are for the test.
    """

    by_seed: bool = True

    @abstractmethod
    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        """The data set, in memory.

        Raises:
            MissingError: its files are not there; the message says how to get them.
            ScenarioError: its files are not what they should be.
        """

    def outline(self, setting: ScenarioView) -> "Outline | None":
        """What the files' headers tell, fast; None where only reading them does. ``simfl validate`` asks it.

        Raises:
            MissingError, ScenarioError: as :meth:`load`, as far as it looks.
        """
        return None


DATA = Registry[Data](
    "data",
    shorthand=shorthand,
    promises=("by_seed",),
    protocol=Data,
    modules=modules_of(
        "simfl.learning.data",
        "csv",
        "npz",
        "parquet",
        "pt",
        "python",
        adult="adult adult_complete",
        generated="digits markov_text synthetic",
        image_sets="cifar10 cifar100 fashion_mnist mnist",
        per_client="leaf pfllib",
    ),
)
