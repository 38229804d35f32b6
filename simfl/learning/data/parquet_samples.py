"""Samples of Parquet columns as arrays: pictures, lists of numbers, texts. pyarrow is imported only when needed."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Arrays, Integers
from simfl.learning.data.base import Dataset
from simfl.learning.data.image_arrays import (
    broken,
    channels_last,
    check_channels,
    check_tokens,
    image_arrays,
    standardise,
)
from simfl.learning.data.limits import check_values

CLIENT = "client"
"""What the column of the clients is called in the data set, beside its own name."""


def is_binary(kind: Any) -> bool:
    """Whether a column of this type holds files' bytes, alone or as the field ``bytes`` beside a path."""
    from pyarrow import types

    if types.is_struct(kind):
        return any(kind.field(i).name == "bytes" for i in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    from pyarrow import BaseExtensionType, types

    kind = kind.storage_type if isinstance(kind, BaseExtensionType) else kind
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def first_null(column: Any) -> int:
    """The row, counted from 1, of a column's first missing value."""
    return int(np.argmax(np.asarray(column.is_null().to_numpy()))) + 1


def read_sample_column(column: Any, what: str) -> NDArray[np.generic]:
    """Pictures (n, height, width[, 3]) of 8 bits, or grey ones of 16 or 32; lists of numbers (n, ...) as they are; or
    texts of one length (n,).

    Raises:
        ScenarioError: a sample is missing, damaged, of another shape than the first, or there are too many numbers.
    """
    if is_binary(column.type):
        import pyarrow.compute

        structured = pyarrow.types.is_struct(column.type)
        return _pictures(pyarrow.compute.struct_field(column, "bytes") if structured else column, what)
    if column.null_count:
        raise broken(what, f"row {first_null(column)} is empty")
    if is_list(column.type):
        parts = [_numbers(chunk, what) for chunk in column.chunks]
        if len({part.shape[1:] for part in parts}) > 1:
            raise broken(what, "lists have different lengths")
        return np.concatenate(parts)
    return _texts(column.to_pylist(), what)


def _pictures(column: Any, what: str) -> NDArray[np.generic]:
    """Decoded PNG, JPEG or TIFF files; grey where the first one is, and of as many bits."""
    if column.null_count:
        raise broken(what, f"row {first_null(column)} has no bytes (a path alone is no picture)")
    files = column.to_pylist()
    first = _picture(files[0], "", what, 1)
    mode = "" if first.dtype != np.uint8 else "L" if first.ndim == 2 else "RGB"
    check_values(len(files) * first.size, len(files) * first.nbytes, what)
    pictures = np.empty((len(files), *first.shape), dtype=first.dtype)
    for row, file in enumerate(files, start=1):
        picture = _picture(file, mode, what, row)
        if picture.shape[:2] != first.shape[:2]:
            raise broken(what, f"row {row}: a picture of {picture.shape[:2]} pixels, the first has {first.shape[:2]}")
        if picture.dtype != first.dtype or picture.ndim != first.ndim:
            raise broken(what, f"row {row}: a picture of {picture.dtype} values, the first has {first.dtype}")
        pictures[row - 1] = picture
    return pictures


def _picture(file: bytes, mode: str, what: str, row: int) -> NDArray[np.generic]:
    """A picture's values: of 8 bits in a mode of Pillow's, but grey ones of 16 or 32 bits as they are."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(file)) as image:
            if image.mode in ("I", "F") or image.mode.startswith("I;16"):
                deep = np.asarray(image)
                return deep.astype(deep.dtype.newbyteorder("="))
            mode = mode or ("L" if image.mode in ("1", "L", "LA") else "RGB")
            return np.asarray(image.convert(mode), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise broken(what, f"row {row}: no picture that can be read ({' '.join(str(error).split())[:100]})") from error


def _numbers(chunk: Any, what: str) -> NDArray[np.generic]:
    """Lists, also of lists, all of one length on each level."""
    import pyarrow.compute

    chunk = chunk.storage if isinstance(chunk, pyarrow.ExtensionArray) else chunk
    shape = [len(chunk)]
    while is_list(chunk.type):
        lengths = pyarrow.compute.list_value_length(chunk).to_numpy(zero_copy_only=False)
        if chunk.null_count or (lengths != lengths[:1]).any():
            raise broken(what, "lists have different lengths")
        shape.append(int(lengths[0]) if len(lengths) else 0)
        chunk = chunk.flatten()
    check_values(len(chunk), len(chunk) * 8, what)
    numbers = np.asarray(chunk.to_numpy(zero_copy_only=False))
    if chunk.null_count or numbers.dtype.kind not in "fiub" or not np.isfinite(numbers).all():
        raise broken(what, "holds values that are no finite numbers")
    return numbers.reshape(shape)


def _texts(texts: Sequence[str], what: str) -> NDArray[np.str_]:
    length = len(texts[0])
    if not length:
        raise broken(what, "row 1 is an empty text")
    wrong = next((row for row, text in enumerate(texts, start=1) if len(text) != length), None)
    if wrong is not None:
        why = f"has {len(texts[wrong - 1]):,} characters and row 1 has {length:,}"
        raise broken(what, f"row {wrong} {why}; texts are windows of one length (or drop the column)")
    check_values(2 * length * len(texts), 4 * length * len(texts), what)
    return np.array(texts, dtype=f"U{length}")


def assemble(
    train: Arrays, test: Arrays, tokens: bool, client: str | None, files: tuple[Path, Path], channels: str | None = None
) -> Dataset:
    """The data set of both parts, see :func:`simfl.learning.data.parquet.read_samples`, scaled by the first.

    ``channels`` says where images have theirs, if somebody says so.

    Raises:
        ScenarioError: the parts do not fit together.
    """
    check_channels(train["x"], channels, files[0])
    parts, labels = (train, test), train["labels"]
    y_train, y_test = (_codes(part["y"], labels, file) for part, file in zip(parts, files, strict=True))
    x_train, x_test = (part["x"] for part in parts)
    if x_train.dtype.kind != x_test.dtype.kind or x_train.shape[1:] != x_test.shape[1:] or not len(x_test):
        shapes = f"{x_train.dtype} of shape {x_train.shape} and {x_test.dtype} of shape {x_test.shape}"
        raise broken(files[1], f"training and test samples, {shapes}, do not fit together")
    if x_train.dtype.kind == "U":
        x_train, x_test = (
            _codes(x.view("U1").reshape(len(x), -1), labels, file)
            for x, file in zip((x_train, x_test), files, strict=True)
        )
    elif tokens:
        check_tokens((x_train, x_test), len(labels), files[0])
        x_train, x_test = (x.astype(np.int64) for x in (x_train, x_test))
    elif x_train.ndim > 2:
        x_train, x_test = (channels_last(x, channels, file) for x, file in zip((x_train, x_test), files, strict=True))
        scaled = image_arrays(x_train, y_train, x_test, y_test, len(labels), files[0])
        x_train, x_test = scaled["x_train"], scaled["x_test"]
    else:
        x_train, x_test = standardise(x_train, x_test)
    data = Dataset(x_train, y_train, x_test, y_test, tuple(train["names"].tolist()))
    return with_clients(data, train.get(CLIENT), test.get(CLIENT), client)


def with_clients(
    data: Dataset,
    owners: NDArray[np.generic] | None,
    test_owners: NDArray[np.generic] | None,
    name: str | None,
    notes: Sequence[str] = (),
) -> Dataset:
    """The data with the clients of both parts as the columns ``client`` and ``name``, and with notes."""
    data = replace(data, notes=(*data.notes, *notes))
    if owners is None or test_owners is None or name is None:
        return data
    columns, test = ({name: ids, CLIENT: ids} for ids in (owners, test_owners))
    return replace(data, columns={**data.columns, **columns}, test_columns={**data.test_columns, **test})


def _codes(values: NDArray[np.generic], known: NDArray[np.generic], file: Path) -> Integers:
    """The position of each value among the sorted known ones.

    Raises:
        ScenarioError: one is not known.
    """
    if values.dtype.kind != known.dtype.kind and "U" in (values.dtype.kind, known.dtype.kind):
        raise broken(file, f"labels are {values.dtype}, those of the training part {known.dtype}")
    characters = values.dtype == known.dtype == np.dtype("U1")  # faster as numbers
    sought, among = (values.view(np.uint32), known.view(np.uint32)) if characters else (values, known)
    place = np.minimum(np.searchsorted(among, sought), len(known) - 1)
    if (strange := among[place] != sought).any():
        raise broken(file, f"'{values[strange][0]}' is none of the {len(known)} classes of the training part")
    return place.astype(np.int64)
