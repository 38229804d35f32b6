"""Data sets that lie in a file or object for each client: LEAF's JSON, PFLlib's folders of .npz."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataTree, load_cached
from simfl.core.types import Arrays
from simfl.learning.capacity import refuse_too_large
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.image_arrays import Layout, broken, cut_by_client
from simfl.learning.data.npz import dataset_of, ready_arrays
from simfl.learning.data.plain_pickle import read_archive

TestFraction = Annotated[
    float, Field(gt=0, lt=1, description="share of each client's samples for the test, where there is no test part")
]


class Holding(NamedTuple):
    """One client's samples, (n, ...), and their labels, (n,)."""

    x: NDArray[np.generic]
    y: NDArray[np.generic]


@DATA("leaf")
@dataclass(frozen=True)
class Leaf:
    """JSON files of the benchmark LEAF: ``users`` and ``user_data``, each with lists ``x`` and ``y``.

    A folder with the folders train and test, a folder of such files, or one of them. Samples are lists of numbers, or
    texts of one length whose labels are the next character. Clients are the users, for the partition ``natural``.
    """

    path: Annotated[DataTree, Field(description="the file, or the folder of the files")]
    test_path: Annotated[
        DataTree | None, Field(description="the same of the test part; null = the folder test, else test_fraction")
    ] = None
    shape: Annotated[
        tuple[Annotated[int, Field(ge=1, le=10_000)], ...],
        Field(max_length=3, description="of a sample that is written as one list: [height, width] or with channels"),
    ] = ()
    channels: Layout = None
    classes: Annotated[
        int | None, Field(ge=2, le=100_000, description="number of classes; null = the largest label and 1")
    ] = None
    test_fraction: TestFraction = 0.2

    example = {"path": "leaf"}

    def outline(self, setting: ScenarioView) -> None:
        self._files(setting)

    @property
    def by_seed(self) -> bool:
        return self.test_path is None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        files = self._files(setting)
        everything = [file for part in files for file in part]
        arrays = load_cached(
            f"leaf v1 {self.shape} {[len(part) for part in files]}", everything, lambda: self._decode(files)
        )
        tokens = "label_names" in arrays
        if tokens and (self.shape or self.channels or self.classes):
            raise broken(everything[0], "samples are texts; leave shape, channels and classes out")
        arrays = with_test(arrays, self.test_fraction, streams)
        if self.classes is not None and not tokens:
            arrays["label_names"] = np.arange(self.classes).astype(str)
        data = dataset_of(ready_arrays(arrays, everything[0], tokens, self.channels, "write classes, their number"))
        return replace(data, notes=(_note(data, "LEAF", len(everything)),))

    def _files(self, setting: ScenarioView) -> list[list[Path]]:
        """The files of the training part and, if there are some, of the test part."""
        path = Path(setting.file(self.path))
        folders = [path / "train", path / "test"] if (path / "train").is_dir() else [path]
        if self.test_path is not None:
            folders = [folders[0], Path(setting.file(self.test_path))]
        parts = [
            sorted(folder.glob("*.json")) if folder.is_dir() else [folder] for folder in folders if folder.exists()
        ]
        if not parts or not all(parts):
            raise MissingError(f"learning.data.path: no .json files in {path}")
        return parts

    def _decode(self, files: Sequence[Sequence[Path]]) -> Arrays:
        arrays = pool([_users(part, self.shape) for part in files], files[0][0])
        return _as_tokens(arrays, files[0][0]) if arrays["x_train"].dtype.kind == "U" else arrays


def _users(files: Iterable[Path], shape: tuple[int, ...]) -> dict[str, Holding]:
    """The samples of each user of some files.

    Raises:
        ScenarioError: they are no such files, or name a user twice.
    """
    holdings: dict[str, Holding] = {}
    for file in files:
        refuse_too_large(8 * file.stat().st_size, "", str(file))
        try:
            content = json.loads(file.read_bytes())
            users, samples = content["users"], content["user_data"]
            counts = content.get("num_samples", [len(each["y"]) for each in samples.values()])
            if sorted(users) != sorted(samples) or len(counts) != len(users):
                raise broken(file, "users, user_data and num_samples do not name the same users")
            for user, count in zip(users, counts, strict=True):
                if user in holdings:
                    raise broken(file, f"user {user} has samples in an earlier file of the same part, too")
                holdings[str(user)] = _holding(samples[user], count, shape, f"{file}: user {user}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise broken(file, f"is no LEAF file of users and user_data ({type(error).__name__}: {error})") from None
    return holdings


def _holding(of: Mapping[str, Any], count: int, shape: tuple[int, ...], what: str) -> Holding:
    try:
        x, y = np.array(of["x"]), np.array(of["y"])
    except ValueError:
        raise broken(what, "x are lists of different lengths") from None
    if len(x) != len(y) or len(y) != count:
        raise broken(what, f"has {len(x)} samples and {len(y)} labels; num_samples says {count}")
    if x.dtype.kind not in "iufbU" or (x.dtype.kind == "U" and x.ndim != 1):
        raise broken(what, f"x is {x.dtype} of shape {x.shape}; samples are lists of numbers or texts of one length")
    if shape and len(x):
        if x.dtype.kind == "U" or x[0].size != np.prod(shape):
            raise broken(what, f"samples of shape {x.shape[1:]} cannot have the shape {list(shape)}")
        x = x.reshape(len(x), *shape)
    return Holding(x, y)


def _as_tokens(arrays: Arrays, what: object) -> Arrays:
    """Texts and the characters that follow as numbers of characters, sorted."""
    texts = [arrays[name] for name in ("x_train", "x_test") if name in arrays]
    following = [arrays[name] for name in ("y_train", "y_test") if name in arrays]
    lengths = {len(text) for part in texts for text in part.tolist()}
    if len(lengths) != 1 or any(y.dtype != np.dtype("U1") for y in following):
        raise broken(what, "samples are texts; they have one length, and their labels are the next character, one each")
    shapes = [(len(part), lengths.copy().pop()) for part in texts]
    letters = [np.ascontiguousarray(part).view("U1").reshape(shape) for part, shape in zip(texts, shapes, strict=True)]
    known = np.unique(np.concatenate([part.reshape(-1) for part in (*letters, *following)]))
    coded = {name: np.searchsorted(known, part) for name, part in zip(("x_train", "x_test"), letters)}
    coded |= {name: np.searchsorted(known, part) for name, part in zip(("y_train", "y_test"), following)}
    return arrays | coded | {"label_names": known}


@DATA("pfllib")
@dataclass(frozen=True)
class PflLib:
    """A folder as PFLlib writes it: train/0.npz, 1.npz, ... and test/0.npz, ..., one of each for a client.

    What is pickled in them is read without executing it. Clients are the files' numbers, for the partition ``natural``.
    """

    path: Annotated[DataTree, Field(description="the folder in which train and test lie")]
    channels: Layout = None

    example = {"path": "MNIST"}
    by_seed = False

    def outline(self, setting: ScenarioView) -> None:
        self._files(setting)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        files = self._files(setting)
        folder = Path(setting.file(self.path))

        def decode() -> Arrays:
            parts = [{int(file.stem): _client_file(file) for file in part} for part in files]
            return ready_arrays(pool(parts, folder) | _class_names(folder, len(files[0])), folder, False, self.channels)

        everything = [file for part in files for file in part]
        described = [each for each in (folder / "config.json",) if each.is_file()]
        recipe = f"pfllib v1 {self.channels} {[[file.stem for file in part] for part in files]}"
        data = dataset_of(load_cached(recipe, everything + described, decode))
        return replace(data, notes=(_note(data, "PFLlib", len(everything)),))

    def _files(self, setting: ScenarioView) -> list[list[Path]]:
        """Both parts' files, in the order of their numbers."""
        folder = Path(setting.file(self.path))
        parts = []
        for name in ("train", "test"):
            files = {int(file.stem): file for file in (folder / name).glob("*.npz") if re.fullmatch(r"\d+", file.stem)}
            if not files:
                raise MissingError(f"learning.data.path: no {name}/0.npz, 1.npz, ... in {folder}")
            parts.append([files[number] for number in sorted(files)])
        return parts


def _client_file(path: Path) -> Holding:
    """
    Raises:
        ScenarioError: it holds no samples ``x`` and labels ``y``.
    """
    content = read_archive(path)
    content = content.get("data", content)
    if not isinstance(content, dict) or not {"x", "y"} <= content.keys():
        known = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise broken(path, f"has no x and y, alone or in data; it has {known}")
    try:
        x, y = np.array(content["x"]), np.array(content["y"])
    except ValueError:
        raise broken(path, "x are lists of different lengths") from None
    if x.dtype.kind not in "iufb":
        raise broken(path, f"x is {x.dtype} of shape {x.shape}, not numbers")
    return Holding(x, y)


def _class_names(folder: Path, clients: int) -> Arrays:
    """As many names as config.json says that there are classes.

    Raises:
        ScenarioError: it is damaged, or says another number of clients.
    """
    file = folder / "config.json"
    if not file.is_file():
        return {}
    try:
        about = json.loads(file.read_bytes())
        classes, said = int(about["num_classes"]), int(about.get("num_clients", clients))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise broken(file, f"does not say num_classes ({type(error).__name__}: {error})") from None
    if said != clients:
        raise broken(file, f"says {said} clients, and train has the files of {clients}")
    return {"label_names": np.arange(classes).astype(str)} if 0 < classes <= 100_000 else {}


def pool(parts: Sequence[Mapping[Any, Holding]], what: object) -> Arrays:
    """The samples of all clients as arrays x_train, y_train, client and, of a second part, x_test, y_test, client_test.

    Raises:
        ScenarioError: there are none, or clients' samples do not fit together.
    """
    arrays: Arrays = {}
    for holdings, (x, y, client) in zip(parts, (("x_train", "y_train", "client"), ("x_test", "y_test", "client_test"))):
        filled = {key: holding for key, holding in holdings.items() if len(holding.y)}
        if not filled:
            raise broken(what, f"no client has samples in its {x.partition('_')[2]} part")
        (first, one), *others = filled.items()
        for key, holding in others:
            if holding.x.shape[1:] != one.x.shape[1:] or (holding.x.dtype.kind == "U") != (one.x.dtype.kind == "U"):
                shapes = f"{one.x.dtype} {one.x.shape[1:]} and {holding.x.dtype} {holding.x.shape[1:]}"
                raise broken(what, f"samples of clients {first} and {key} do not fit together: {shapes}")
        arrays[x] = np.concatenate([holding.x for holding in filled.values()])
        arrays[y] = np.concatenate([holding.y for holding in filled.values()])
        arrays[client] = np.repeat(np.array(list(filled)), [len(holding.y) for holding in filled.values()])
    return arrays


def with_test(arrays: Arrays, test_fraction: float, streams: Streams) -> Arrays:
    """The arrays with a test part: as it is, or else the same share of each client's samples, drawn."""
    if "x_test" in arrays:
        return arrays
    train, test = cut_by_client(arrays.get("client"), len(arrays["y_train"]), test_fraction, streams("split"))
    if not len(test):
        raise ScenarioError("test_fraction", f"of {len(train):,} samples {test_fraction:g} leaves none for the test")
    pairs = (("x_train", "x_test"), ("y_train", "y_test"), ("client", "client_test"))
    known = [pair for pair in pairs if pair[0] in arrays]
    return (
        arrays | {other: arrays[name][test] for name, other in known} | {name: arrays[name][train] for name, _ in known}
    )


def _note(data: Dataset, kind: str, files: int) -> str:
    training, test = (np.unique(columns["client"]).size for columns in (data.columns, data.test_columns))
    return f"{kind}: {files:,} files; clients: client ({training:,} in the training part, {test:,} in the test part)"
