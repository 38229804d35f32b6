"""MNIST and Fashion-MNIST, from their idx files, plain or gzipped (described on LeCun's MNIST page); CIFAR-10 and
CIFAR-100, from an .npz file or torchvision's copy of the official archives.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import MissingError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataFolder, data_places, data_root, load_cached
from simfl.core.storage.disk import cache_root
from simfl.core.types import Arrays
from simfl.learning.data.base import DATA, Data, Dataset, Outline, SubsetField, subset
from simfl.learning.data.image_arrays import broken, channels_last, image_arrays
from simfl.learning.data.limits import check_values
from simfl.learning.data.npz import npz_outline, read_npz

PARTS = {
    "x_train": ("train-images-idx3-ubyte", 3),
    "y_train": ("train-labels-idx1-ubyte", 1),
    "x_test": ("t10k-images-idx3-ubyte", 3),
    "y_test": ("t10k-labels-idx1-ubyte", 1),
}

Root = Annotated[DataFolder | None, Field(description="folder that holds the data; null = the data folder")]
Download = Annotated[bool, Field(description="get missing files through torchvision, into root or the cache folder")]


@dataclass(frozen=True)
class _ImageSet(Data):
    """Files in the data folder that torchvision can get."""

    root: Root = None
    download: Download = False
    samples: SubsetField = field(default=None, metadata=SINCE_LATER)

    torchvision_name: ClassVar[str]

    @property
    def by_seed(self) -> bool:  # type: ignore[override]
        """Which samples there are, where some are drawn."""
        return self.samples is not None

    def _root(self, setting: ScenarioView) -> Path | None:
        return setting.file(self.root) if self.root else data_root()

    def _target(self, root: Path | None) -> Path:
        """Where downloads go."""
        return root if self.root and root else (cache_root() or Path.cwd()) / "downloads"

    def _missing(self, what: str, root: Path | None) -> str:
        return f"learning.data: {what} in {root if self.root else data_places()}"

    @property
    def _advice(self) -> str:
        return (
            f"; set learning.data to {{name: {self.name}, download: true}}, or run  python -c "
            f"\"from torchvision.datasets import {self.torchvision_name} as D; D('DIR', download=True)\"  "
            "and name DIR in learning.data.root"
        )


@DATA("mnist")
@dataclass(frozen=True)
class Mnist(_ImageSet):
    """70,000 handwritten digits of 28 x 28 pixels in 10 classes. Reference: LeCun et al. 1998."""

    torchvision_name: ClassVar[str] = "MNIST"
    label_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        files = self._files(setting, get=True)

        def decode() -> Arrays:
            parts = {part: read_idx(files[part], dimensions) for part, (_, dimensions) in PARTS.items()}
            return image_arrays(**parts, classes=10, what=files["x_train"].parent)

        arrays = load_cached(f"{self.name} v1", list(files.values()), decode)
        x_train, y_train, x_test, y_test = (arrays[part] for part in PARTS)
        return subset(Dataset(x_train, y_train, x_test, y_test, self.label_names), self.samples, streams)

    def outline(self, setting: ScenarioView) -> Outline:
        if not (files := self._files(setting, get=False)):
            return Outline((1, 28, 28), 10)
        for part, (_, dimensions) in PARTS.items():
            shape = idx_shape(files[part], dimensions)
            if part == "x_train":
                pixels = shape[1:]
        return Outline((1, *pixels), 10)

    def _files(self, setting: ScenarioView, get: bool) -> dict[str, Path]:
        """The four files; what is missing is downloaded where the scenario says so, or left out unless ``get``."""
        root = self._root(setting)
        if root is not None and (files := self._find_files(root)):
            return files
        if not self.download:
            raise MissingError(self._missing(f"no {self.torchvision_name}/raw/*-ubyte[.gz]", root) + self._advice)
        if not get:
            return {}
        from simfl.learning.torchvision_import import download

        target = self._target(root)
        download(self.torchvision_name, target)
        return self._find_files(target)

    def _find_files(self, root: Path) -> dict[str, Path]:
        """The four files, gzipped or not; empty if one is missing."""
        files: dict[str, Path] = {}
        for part, (name, _) in PARTS.items():
            for path in (root / self.torchvision_name / "raw" / f"{name}{end}" for end in ("", ".gz")):
                if path.is_file():
                    files.setdefault(part, path)
        return files if len(files) == len(PARTS) else {}


@DATA("fashion_mnist")
@dataclass(frozen=True)
class FashionMnist(Mnist):
    """70,000 pictures of clothes, 28 x 28 pixels, in 10 classes. Reference: Xiao, Rasul and Vollgraf 2017."""

    torchvision_name: ClassVar[str] = "FashionMNIST"
    label_names: ClassVar[tuple[str, ...]] = (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    )  # fmt: skip


UNSIGNED_BYTE = 0x08


def idx_shape(path: Path, dimensions: int) -> tuple[int, ...]:
    """The shape that the header of an idx file with so many dimensions promises.

    Raises:
        ScenarioError: it is no such file, or promises more than can be read.
    """
    start = 4 + 4 * dimensions
    raw = _read(path, start)
    if len(raw) < start or raw[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise broken(path, f"is no idx file of unsigned bytes in {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", raw[4:])
    check_values(prod(shape), prod(shape), path)
    return shape


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The uint8 array of an idx file with so many dimensions.

    Raises:
        ScenarioError: it is no such file, or truncated.
    """
    shape, start = idx_shape(path, dimensions), 4 + 4 * dimensions
    raw = _read(path, start + prod(shape) + 1)
    if (size := len(raw) - start) != prod(shape):
        size_text = f"{size:,}" if size < prod(shape) else "more"
        raise broken(path, f"holds {size_text} bytes of data where its header promises {prod(shape):,}")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)


def _read(path: Path, most: int) -> bytes:
    """The first bytes of a file, at most so many, inflated where its name ends in .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            return file.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, f"cannot be read ({error})") from error


@DATA("cifar10")
@dataclass(frozen=True)
class Cifar10(_ImageSet):
    """60,000 colour pictures of 32 x 32 pixels in 10 classes. Reference: Krizhevsky 2009."""

    torchvision_name: ClassVar[str] = "CIFAR10"
    archive: ClassVar[str] = "cifar-10-batches-py"
    classes: ClassVar[int] = 10

    def outline(self, setting: ScenarioView) -> Outline:
        root = self._root(setting)
        if root is not None and (path := self._npz(root)):
            return Outline(npz_outline(path).shape, self.classes)
        if not self.download:
            self._archive(root)
        return Outline((3, 32, 32), self.classes)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        root = self._root(setting)
        if root is not None and (path := self._npz(root)):
            sources, decode = [path], lambda: self._from_npz(path)
        else:
            folder = self._archive(root)
            sources, decode = (
                sorted(path for path in folder.iterdir() if path.is_file()),
                lambda: self._from_archive(folder),
            )
        arrays = load_cached(f"{self.name} v1", sources, decode)
        names = tuple(str(name) for name in arrays.pop("label_names"))
        data = Dataset(arrays["x_train"], arrays["y_train"], arrays["x_test"], arrays["y_test"], names)
        return subset(data, self.samples, streams)

    def _npz(self, root: Path) -> Path | None:
        name = f"{self.name}.npz"
        return next((path for path in (root / name, root / self.name / name) if path.is_file()), None)

    def _archive(self, root: Path | None) -> Path:
        target = self._target(root)
        for place in dict.fromkeys((*([root] if root else []), *([target] if self.download else []))):
            if (place / self.archive).is_dir():
                return place / self.archive
        if not self.download:
            missing = self._missing(f"neither {self.name}.npz nor {self.archive}/", root)
            if root is not None and (root / self.name).is_dir() and (script := root / "unpack_cifar.py").is_file():
                raise MissingError(f"{missing}; run  python {script} DIR  and name DIR in learning.data.root")
            raise MissingError(missing + self._advice)
        from simfl.learning.torchvision_import import download

        download(self.torchvision_name, target)
        return target / self.archive

    def _from_npz(self, path: Path) -> dict[str, np.ndarray]:
        arrays = read_npz(path)
        names = arrays.get("label_names", np.arange(self.classes)).astype(str)
        return self._arrays(arrays, path) | {"label_names": names}

    def _from_archive(self, folder: Path) -> dict[str, np.ndarray]:
        from simfl.learning.torchvision_import import torchvision

        maker = getattr(torchvision().datasets, self.torchvision_name)
        try:
            train, test = (maker(str(folder.parent), train=part, download=False) for part in (True, False))
        except RuntimeError as error:  # torchvision compares the files with their published md5
            raise MissingError(f"learning.data: {folder}: {error}") from error
        arrays = {
            "x_train": train.data,
            "y_train": np.array(train.targets),
            "x_test": test.data,
            "y_test": np.array(test.targets),
        }
        return self._arrays(arrays, folder) | {"label_names": np.array(train.classes)}

    def _arrays(self, arrays: dict[str, np.ndarray], what: Path) -> dict[str, np.ndarray]:
        parts = {part: arrays[part] for part in ("x_train", "y_train", "x_test", "y_test")}
        parts |= {part: channels_last(parts[part], None, what) for part in ("x_train", "x_test")}
        return image_arrays(**parts, classes=self.classes, what=what)


@DATA("cifar100")
@dataclass(frozen=True)
class Cifar100(Cifar10):
    """60,000 colour pictures of 32 x 32 pixels in 100 classes. Reference: Krizhevsky 2009."""

    torchvision_name: ClassVar[str] = "CIFAR100"
    archive: ClassVar[str] = "cifar-100-python"
    classes: ClassVar[int] = 100
