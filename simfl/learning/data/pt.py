"""Tensors in a file of torch.save."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.types import Arrays
from simfl.learning.capacity import refuse_too_large
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.csv import named_files
from simfl.learning.data.image_arrays import Layout, broken
from simfl.learning.data.npz import NAMES, NEEDED, OPTIONAL, dataset_of, ready_arrays
from simfl.learning.data.per_client import TestFraction, with_test

SAMPLES = ("x", "X", "data", "images", "samples", "features")
LABELS = ("y", "Y", "targets", "labels", "target", "label")


@DATA("pt")
@dataclass(frozen=True)
class Tensors:
    """A file of torch.save with tensors: (x, y), {x: ..., y: ...}, or the arrays of ``npz`` by their names.

    It is read with ``weights_only``: nothing in it is executed. Samples are what they are in ``npz``; a tensor
    ``client`` names their clients, for the partition ``natural``.
    """

    path: Annotated[DataPath, Field(description="the file")]
    test_path: Annotated[DataPath | None, Field(description="file of the test part; null = test_fraction")] = None
    test_fraction: TestFraction = 0.2
    tokens: Annotated[bool, Field(description="samples are tokens (n, length) of 0, 1, 2, ...; no scaling")] = False
    channels: Layout = None

    example = {"path": "tensors.pt"}

    def outline(self, setting: ScenarioView) -> None:
        named_files(setting, self.path, self.test_path)

    @property
    def by_seed(self) -> bool:
        return self.test_path is None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = named_files(setting, self.path, self.test_path)
        (arrays, notes), *others = (read_tensors(path) for path in paths)
        for test, more in others:
            if "x_test" in arrays or "x_test" in test:
                raise broken(paths[0], "has a test part, and so has test_path; leave one of the two out")
            arrays |= {"x_test": test["x_train"], "y_test": test["y_train"]}
            arrays |= {"client_test": test["client"]} if "client" in test else {}
            notes += more
        arrays = with_test(arrays, self.test_fraction, streams)
        return dataset_of(ready_arrays(arrays, paths[0], self.tokens, self.channels), notes)


def read_tensors(path: Path) -> tuple[Arrays, list[str]]:
    """The arrays of a file by the names that ``npz`` has for them, and what is not read, in words.

    Raises:
        ScenarioError: it holds something else than tensors, or not samples and labels.
    """
    import torch

    refuse_too_large(3 * path.stat().st_size, "", str(path))
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        why = "save tensors as torch.save({'x': x, 'y': y}, FILE)"
        raise broken(path, f"holds objects that are not read without executing the file; {why}") from None
    except Exception as error:  # damaged files raise many things
        raise broken(path, f"is no file of torch.save ({' '.join(str(error).split())[:100]})") from None
    named = _by_name(content, path)
    arrays = {name: _array(value, f"{path}: {name}") for name, value in named.items()}
    others = [str(key) for key in content if not any(content[key] is each for each in named.values())] if isinstance(
        content, Mapping
    ) else []  # fmt: skip
    return arrays, [f"{path}: not read: {', '.join(others)}"] if others else []


def _by_name(content: Any, path: Path) -> dict[str, Any]:
    if isinstance(content, (tuple, list)) and len(content) in (2, 4):
        return dict(zip(NEEDED, content))
    if isinstance(content, Mapping):
        for names in NAMES:
            if all(name in content for name in names):
                pairs = zip(NEEDED, names, strict=True)
                return {name: content[key] for name, key in (*pairs, *zip(OPTIONAL, OPTIONAL)) if key in content}
        samples, labels = ([name for name in names if name in content] for names in (SAMPLES, LABELS))
        if len(samples) == len(labels) == 1:
            pair = {"x_train": content[samples[0]], "y_train": content[labels[0]]}
            return pair | {name: content[name] for name in ("client", "label_names") if name in content}
    known = ", ".join(map(str, content)) if isinstance(content, Mapping) else type(content).__name__
    needed = f"(x, y), a mapping with x and y, or with {', '.join(NEEDED)}"
    raise broken(path, f"holds {known}; needed are tensors {needed}")


def _array(value: Any, what: str) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and not value.is_sparse and not value.is_quantized:
        return (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, (str, int)) for each in value):
        return np.array(value)
    raise broken(what, f"is {type(value).__name__}, not a tensor")
