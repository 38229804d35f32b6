"""Anybody's Parquet file: tables, lists of numbers, pictures and texts, as Hugging Face's ``datasets`` exports them.

pyarrow is imported only when one is read.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import MissingError, ScenarioError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath, load_cached
from simfl.core.types import Arrays
from simfl.learning.capacity import refuse_too_large
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.csv import named_files
from simfl.learning.data.image_arrays import Layout, broken, cut_by_client
from simfl.learning.data.limits import check_classes, check_values
from simfl.learning.data.parquet_samples import (
    CLIENT,
    assemble,
    first_null,
    is_binary,
    is_list,
    is_text,
    read_sample_column,
)
from simfl.learning.data.table import MAX_CHARACTERS
from simfl.learning.data.table_columns import Categories, ColumnRoles, MissingField, table_data

LABELS = ("label", "labels", "y", "character", "fine_label", "target")
SAMPLES = ("image", "img", "x", "pixels", "text")
BATCH = 2**14
"""Rows that are read at a time."""

CLIENTS = ("client", "client_id", "writer_id", "character_id", "user_id", "user")


class Roles(NamedTuple):
    """Names of columns: the label's, that of the samples (None = all ``features``), that of the clients, if any."""

    label: str
    sample: str | None
    client: str | None
    features: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Of the labels, where the file says so (Hugging Face's ClassLabel)."""
    pictures: bool = False
    """Whether the samples are files of pictures."""


@DATA("parquet")
@dataclass(frozen=True)
class Parquet:
    """A Parquet file (extra ``parquet``) of pictures, lists of numbers, texts of one length, or table columns.

    Pictures are a column as Hugging Face exports it (``bytes`` of PNG or JPEG) or nested lists; they are scaled as
    ``npz`` scales them. Texts need labels of one character, the next one. Where no column holds such samples, all
    columns but label and client are features, as in ``csv``. The partition ``natural`` splits by the column of the
    clients, also called ``client``. Without ``test_path`` the same share of each client's samples is kept for the test.
    """

    path: Annotated[DataPath, Field(description="the file")]
    label: Annotated[
        str | None, Field(description="column to predict; null = label, labels, y, character, fine_label or target")
    ] = None
    sample: Annotated[
        str | None, Field(description="column of the samples; null = image, img, x, pixels, text or the only such one")
    ] = None
    client: Annotated[
        str | None,
        Field(description="column of the clients; null = client, client_id, writer_id, character_id or user"),
    ] = None
    tokens: Annotated[bool, Field(description="lists are tokens 0, 1, 2, ... of a text; no scaling")] = False
    test_path: Annotated[DataPath | None, Field(description="file with the test rows; null = test_fraction")] = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of each client's rows for the test")] = 0.2
    drop: Annotated[tuple[str, ...], Field(description="columns to leave out")] = ()
    channels: Layout = field(default=None, metadata=SINCE_LATER)
    categories: Categories = field(default=(), metadata=SINCE_LATER)
    missing: MissingField = field(default=None, metadata=SINCE_LATER)

    example = {"path": "export.parquet"}

    def outline(self, setting: ScenarioView) -> None:
        for path in self._paths(setting):
            self._roles(path)

    @property
    def by_seed(self) -> bool:
        return self.test_path is None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = self._paths(setting)
        roles = [self._roles(path) for path in paths]
        if roles[0].sample is None:
            return self._table(paths, roles[0], streams)
        keys = [f"parquet v2 {each} {self.tokens} {self.categories}" for each in roles]
        parts = [
            load_cached(key, [path], partial(read_samples, path, each))
            for key, path, each in zip(keys, paths, roles, strict=True)
        ]
        if len(parts) == 1:
            (whole,) = parts
            cuts = cut_by_client(whole.get(CLIENT), len(whole["y"]), self.test_fraction, streams("split"))
            parts = [whole | {name: whole[name][cut] for name in ("x", "y", CLIENT) if name in whole} for cut in cuts]
        channels = self.channels
        if roles[0].pictures:
            if channels:
                raise broken(paths[0], f"column '{roles[0].sample}' holds pictures; leave channels: {channels} out")
            channels = "last" if parts[0]["x"].ndim == 4 else None
        return assemble(parts[0], parts[1], self.tokens, roles[0].client, (paths[0], paths[-1]), channels)

    def _table(self, paths: list[Path], roles: Roles, streams: Streams) -> Dataset:
        """Features of all columns but those of label and client."""
        if self.channels or self.tokens:
            key = "channels" if self.channels else "tokens"
            raise broken(paths[0], f"a table of columns has no samples of one column; leave {key} out")
        plan = ColumnRoles(roles.label, roles.client, (), self.categories, self.missing)
        frames = [read_frame(path, roles) for path in paths]

        def cut(ids: NDArray[np.generic] | None, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            return cut_by_client(ids, rows, self.test_fraction, streams("split"))

        return table_data(frames, paths, plan, cut)

    def _paths(self, setting: ScenarioView) -> list[Path]:
        """The file, and that of the test rows where there is one."""
        return named_files(setting, self.path, self.test_path)

    def _roles(self, path: Path) -> Roles:
        return roles_of(path, self.label, self.sample, self.client, self.drop)


def roles_of(path: Path, label: str | None, sample: str | None, client: str | None, drop: Sequence[str]) -> Roles:
    """Which column is what, by the scenario's names or else by usual ones.

    Raises:
        MissingError: pyarrow is not installed.
        ScenarioError: it is no Parquet file, a column is not there, or it is not clear which one is meant.
    """
    with _open(path) as file:
        schema = file.schema_arrow
    for column in (label, sample, client, *drop):
        if column is not None and column not in schema.names:
            raise broken(path, f"has no column '{column}'; it has {', '.join(schema.names)}")
    types = {column: schema.field(column).type for column in schema.names if column not in drop}
    label = label or next((name for name in LABELS if name in types), None)
    if label is None:
        raise broken(path, f"has no column {', '.join(LABELS)}; name one as label: it has {', '.join(types)}")
    client = client or next((name for name in CLIENTS if name in types and name != label), None)
    features = tuple(name for name in types if name not in (label, client))
    sample = sample or _sample(path, {name: types[name] for name in features})
    if sample is not None and not _holds_samples(types[sample]):
        raise broken(path, f"column '{sample}' holds {types[sample]}; samples are pictures, lists of numbers or texts")
    pictures = sample is not None and is_binary(types[sample])
    return Roles(label, sample, client, features, _class_names(schema, label), pictures)


def read_samples(path: Path, roles: Roles) -> Arrays:
    """The samples ``x`` as they are stored, their labels ``y``, the ``labels`` that there are, sorted, with their
    ``names``, and the ``client`` of each sample if known.

    Raises:
        ScenarioError: the columns hold something else, or too much.
    """
    assert roles.sample is not None, "a table is read as a frame"
    table = _read(path, [roles.sample, roles.label, *([roles.client] if roles.client else [])])
    arrays = {"x": read_sample_column(table.column(roles.sample), f"{path}: column '{roles.sample}'")}
    y = arrays["y"] = _values(table.column(roles.label), f"{path}: column '{roles.label}'")
    if arrays["x"].dtype.kind == "U":
        if y.dtype != np.dtype("U1"):
            why = f"holds {y.dtype}; of texts the label is the next character, one each"
            raise broken(f"{path}: column '{roles.label}'", why)
        known = np.unique(arrays["x"].view(np.uint32))
        names = labels = np.union1d(known, y.view(np.uint32)).astype(np.uint32).view("U1")
    else:
        labels = np.arange(len(roles.names)) if roles.names and y.dtype.kind != "U" else np.unique(y)
        names = np.array(roles.names) if roles.names and y.dtype.kind != "U" else labels.astype(str)
    check_classes(len(labels), f"{path}: column '{roles.label}'")
    if roles.client:
        arrays[CLIENT] = _values(table.column(roles.client), f"{path}: column '{roles.client}'")
    return arrays | {"labels": labels, "names": names}


def read_frame(path: Path, roles: Roles) -> Any:
    """The features, the label and, if known, the clients as a pandas data frame.

    Raises:
        ScenarioError: it is no such file, or too large.
    """
    columns = [*roles.features, roles.label, *([roles.client] if roles.client else [])]
    return _read(path, columns).to_pandas().reset_index(drop=True)


def _open(path: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingError(f"{path}: Parquet needs pyarrow: pip install 'simfl[parquet]'") from None
    try:
        return ParquetFile(path)
    except MemoryError:
        raise
    except (ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _read(path: Path, columns: list[str]) -> Any:
    with _open(path) as file:
        from pyarrow import ArrowException, Table

        meta, batches, held_bytes = file.metadata, [], 0
        try:
            groups = [meta.row_group(group) for group in range(meta.num_row_groups)]
            chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
            tops = tuple(f"{name}." for name in columns)
            values = sum(chunk.num_values for chunk in chunks if f"{chunk.path_in_schema}.".startswith(tops))
            check_values(values, 3 * sum(group.total_byte_size for group in groups), f"{path}: {meta.num_rows:,} rows")
            if not meta.num_rows:
                raise broken(path, "has no rows")
            for batch in file.iter_batches(BATCH, columns=columns, use_threads=False):  # words may be repeated
                batches.append(batch)
                held_bytes += batch.nbytes
                refuse_too_large(2 * held_bytes, "", f"{path}: {meta.num_rows:,} rows")
            return Table.from_batches(batches)
        except MemoryError:  # of which pyarrow's is an ArrowException
            raise
        except (ArrowException, OSError, ValueError) as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ScenarioError:
    return broken(path, f"is not a readable Parquet file ({' '.join(str(error).split())[:200]})")


def _holds_samples(kind: Any) -> bool:
    return is_binary(kind) or is_list(kind) or is_text(kind)


def _sample(path: Path, types: dict[str, Any]) -> str | None:
    """The column of the samples, None where all columns are features."""
    if usual := next((name for name in SAMPLES if name in types and _holds_samples(types[name])), None):
        return usual
    candidates = [name for name, kind in types.items() if is_binary(kind) or is_list(kind)]
    if len(candidates) > 1:
        raise broken(path, f"columns {', '.join(candidates)} may all be the samples; name one as sample")
    return candidates[0] if candidates else None


def _class_names(schema: Any, label: str) -> tuple[str, ...]:
    """The names of the classes that Hugging Face's ``datasets`` wrote beside the columns, if it did."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features[label]["names"])
    except (KeyError, TypeError, ValueError):
        return ()


def _values(column: Any, what: str) -> NDArray[np.generic]:
    """Whole numbers or texts, (n,).

    Raises:
        ScenarioError: they are something else, or one is missing.
    """
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise broken(what, f"row {first_null(column)} is empty")
    if pyarrow.types.is_integer(column.type):
        return np.asarray(column.to_numpy())
    if not is_text(column.type) and not pyarrow.types.is_boolean(column.type):
        raise broken(what, f"holds {column.type}, neither whole numbers nor texts")
    texts = [str(value) for value in column.to_pylist()]
    if (longest := max(map(len, texts))) > MAX_CHARACTERS:
        raise broken(what, f"has a text of {longest:,} characters; at most {MAX_CHARACTERS:,}")
    return np.array(texts, dtype=str)
