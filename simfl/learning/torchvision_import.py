"""torchvision, imported only when something needs it, also beside a torch that it was not compiled for."""

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from simfl.core.errors import MissingError


@cache
def torchvision() -> ModuleType:
    """The module torchvision, data sets included.

    A torchvision compiled for CUDA finds no operators beside a CPU torch and stops at import. simfl uses none of
    them (only data sets), so their names are declared, without an implementation, and the import is repeated.

    Raises:
        MissingError: it is not installed or cannot be imported.
    """
    try:
        return _import()
    except ImportError as error:
        raise MissingError(f"torchvision cannot be imported ({error}); pip install torchvision") from error
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise MissingError(f"torchvision cannot be imported ({error})") from error
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # half imported
    _declare_operators()
    try:
        return _import()
    except (ImportError, RuntimeError) as error:
        raise MissingError(f"torchvision cannot be imported ({error})") from error


def _import() -> ModuleType:
    importlib.import_module("torchvision.datasets")
    return sys.modules["torchvision"]


def _declare_operators() -> None:
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch has none
    for operator in ("nms", "qnms"):
        signature = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(signature)  # type: ignore[no-untyped-call]  # torch has none
    _libraries.append(library)  # the declarations live as long as the library object


_libraries: list[object] = []


def download(dataset: str, root: Path) -> None:
    """Gets the files of a torchvision data set into ``root``, training and test part.

    Raises:
        MissingError: they could not be had.
    """
    maker = getattr(torchvision().datasets, dataset)
    try:
        root.mkdir(parents=True, exist_ok=True)
        for train in (True, False):
            maker(str(root), train=train, download=True)
    except (OSError, RuntimeError) as error:
        raise MissingError(f"learning.data: {dataset} could not be downloaded into {root}: {error}") from error
