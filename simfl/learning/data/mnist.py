"""MNIST and Fashion-MNIST, from their idx files, plain or gzipped (described on LeCun's MNIST page)."""

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
from simfl.learning.data.image_arrays import broken, image_arrays
from simfl.learning.data.limits import check_values

PARTS = {
    "x_train": ("train-images-idx3-ubyte", 3),
    "y_train": ("train-labels-idx1-ubyte", 1),
    "x_test": ("t10k-images-idx3-ubyte", 3),
    "y_test": ("t10k-labels-idx1-ubyte", 1),
}

Root = Annotated[DataFolder | None, Field(description="folder that holds the data; null = the data folder")]
Download = Annotated[bool, Field(description="get missing files through torchvision, into root or the cache folder")]


@DATA("mnist")
@dataclass(frozen=True)
class Mnist(Data):
    """70,000 handwritten digits of 28 x 28 pixels in 10 classes. Reference: LeCun et al. 1998."""

    root: Root = None
    download: Download = False
    samples: SubsetField = field(default=None, metadata=SINCE_LATER)

    torchvision_name: ClassVar[str] = "MNIST"
    label_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    @property
    def by_seed(self) -> bool:  # type: ignore[override]
        """Which samples there are, where some are drawn."""
        return self.samples is not None

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
        root = setting.file(self.root) if self.root else data_root()
        if root is not None and (files := self._find_files(Path(root))):
            return files
        if not self.download:
            raise MissingError(
                f"learning.data: no {self.torchvision_name}/raw/*-ubyte[.gz] in "
                f"{root if self.root else data_places()}; "
                f"set learning.data to {{name: {self.name}, download: true}}, or run  python -c "
                f"\"from torchvision.datasets import {self.torchvision_name} as D; D('DIR', download=True)\"  "
                "and name DIR in learning.data.root"
            )
        if not get:
            return {}
        from simfl.learning.torchvision_import import download

        target = Path(root) if self.root and root else (cache_root() or Path.cwd()) / "downloads"
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
