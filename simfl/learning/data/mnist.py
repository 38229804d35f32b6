"""MNIST and Fashion-MNIST, from their idx files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from simfl.core.errors import MissingError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataFolder, data_places, data_root, load_cached
from simfl.core.storage.disk import cache_root
from simfl.core.types import Arrays
from simfl.learning.data.base import DATA, Data, Dataset, Outline
from simfl.learning.data.idx import idx_shape, read_idx
from simfl.learning.data.image_arrays import image_arrays

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

    torchvision_name: ClassVar[str] = "MNIST"
    label_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    by_seed = False

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        files = self._files(setting, get=True)

        def decode() -> Arrays:
            parts = {part: read_idx(files[part], dimensions) for part, (_, dimensions) in PARTS.items()}
            return image_arrays(**parts, classes=10, what=files["x_train"].parent)

        arrays = load_cached(f"{self.name} v1", list(files.values()), decode)
        x_train, y_train, x_test, y_test = (arrays[part] for part in PARTS)
        return Dataset(x_train, y_train, x_test, y_test, self.label_names)

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
