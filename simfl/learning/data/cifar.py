"""CIFAR-10 and CIFAR-100, from an .npz file or torchvision's copy of the official archives."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from simfl.core.errors import MissingError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import data_places, data_root, load_cached
from simfl.core.storage.disk import cache_root
from simfl.learning.data.base import DATA, Data, Dataset, Outline, SubsetField, subset
from simfl.learning.data.image_arrays import channels_last, image_arrays
from simfl.learning.data.mnist import Download, Root
from simfl.learning.data.npz import npz_outline, read_npz


@DATA("cifar10")
@dataclass(frozen=True)
class Cifar10(Data):
    """60,000 colour pictures of 32 x 32 pixels in 10 classes. Reference: Krizhevsky 2009."""

    root: Root = None
    download: Download = False
    samples: SubsetField = field(default=None, metadata=SINCE_LATER)

    torchvision_name: ClassVar[str] = "CIFAR10"
    archive: ClassVar[str] = "cifar-10-batches-py"
    classes: ClassVar[int] = 10

    def outline(self, setting: ScenarioView) -> Outline:
        root = setting.file(self.root) if self.root else data_root()
        if root is not None and (path := self._npz(Path(root))):
            return Outline(npz_outline(path).shape, self.classes)
        if not self.download:
            self._archive(root)
        return Outline((3, 32, 32), self.classes)

    @property
    def by_seed(self) -> bool:  # type: ignore[override]
        """Which samples there are, where some are drawn."""
        return self.samples is not None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        root = setting.file(self.root) if self.root else data_root()
        if root is not None and (path := self._npz(Path(root))):
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
        downloads = (cache_root() or Path.cwd()) / "downloads"
        places = [Path(root)] if root else []
        if self.download and not self.root:
            places.append(downloads)
        for place in places:
            if (place / self.archive).is_dir():
                return place / self.archive
        if not self.download:
            raise MissingError(self._advice(root))
        from simfl.learning.torchvision_import import download

        target = Path(root) if self.root and root else downloads
        download(self.torchvision_name, target)
        return target / self.archive

    def _advice(self, root: Path | None) -> str:
        missing = (
            f"learning.data: neither {self.name}.npz nor {self.archive}/ in {root if self.root else data_places()}"
        )
        if root is not None and (Path(root) / self.name).is_dir() and (Path(root) / "unpack_cifar.py").is_file():
            return f"{missing}; run  python {Path(root) / 'unpack_cifar.py'} DIR  and name DIR in learning.data.root"
        return (
            f"{missing}; set learning.data to {{name: {self.name}, download: true}}, or run  python -c "
            f"\"from torchvision.datasets import {self.torchvision_name} as D; D('DIR', download=True)\"  "
            "and name DIR in learning.data.root"
        )

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
