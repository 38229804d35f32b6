"""Pickled dictionaries, lists and arrays, read without executing anything that a file names.

Names of numpy in a pickle stand for functions of this module, which make arrays of bytes; any other name is refused.
"""

import io
import pickle
import pickletools
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError
from simfl.learning.capacity import refuse_too_large
from simfl.learning.data.image_arrays import broken


class _Kind:
    """An array's data type, as a pickle gives it: name first, byte order later."""

    def __init__(self, name: str, *_: object) -> None:
        self.type = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in ("<", ">"):
            self.type = self.type.newbyteorder(state[1])


class _Content:
    """An array, as a pickle gives it: empty first, its shape and bytes (or objects) later."""

    value: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, content = state
        if isinstance(content, list):
            self.value = content if shape else content[0]
        else:
            self.value = _from_bytes(content, kind, shape, "F" if fortran else "C")


def _from_bytes(content: Any, kind: _Kind, shape: tuple[int, ...], order: Any = "C") -> NDArray[np.generic]:
    if isinstance(content, str):
        content = content.encode("latin1")
    return np.frombuffer(content, kind.type).reshape(shape, order=order)


class _Function:
    """A function that a pickle may call, and not change."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it changes a function")


_KNOWN: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Content,
    ("numpy", "dtype"): _Kind,
    ("numpy.multiarray", "_reconstruct"): lambda *_: _Content(),
    ("numpy.multiarray", "scalar"): lambda kind, content: _from_bytes(content, kind, ())[()],
    ("numpy.numeric", "_frombuffer"): _from_bytes,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
    ("collections", "OrderedDict"): dict,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        plain = module.replace("numpy._core.", "numpy.").replace("numpy.core.", "numpy.")
        if (plain, name) not in _KNOWN:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}; only dictionaries, lists and numpy arrays are read"
            )
        return _Function(_KNOWN[plain, name])


def read_pickle(file: IO[bytes], what: object) -> Any:
    """What was pickled: dictionaries, lists, plain values and arrays.

    Raises:
        ScenarioError: it is damaged, or holds something else.
    """
    content = file.read()
    try:
        for step, argument, _ in pickletools.genops(content):
            if step.name.endswith("PUT") and int(argument or 0) > len(content):  # it would reserve memory for as many
                raise pickle.UnpicklingError(f"it numbers its values up to {argument}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy's about types that nobody writes
            return _plain(_Reader(io.BytesIO(content)).load(), [len(content)])
    except Exception as error:  # a damaged pickle may raise anything
        why = " ".join(str(error).split())[:200]
        raise broken(what, f"is no pickle that is read without executing it ({why})") from None


def _plain(value: Any, left: list[int]) -> Any:
    """The value with arrays for what stands for them; at most so many values are ``left``, a byte of the file each."""
    left[0] -= 1
    if left[0] < 0:
        raise pickle.UnpicklingError("its values hold one another again and again")
    if isinstance(value, _Content):
        return _plain(value.value, left)
    if isinstance(value, dict):
        return {key: _plain(item, left) for key, item in value.items()}
    return type(value)(_plain(item, left) for item in value) if isinstance(value, (list, tuple)) else value


def read_archive(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file, also those that hold pickled dictionaries.

    Raises:
        ScenarioError: it is no such file, too large, or holds something else.
    """
    values = {}
    try:
        with zipfile.ZipFile(path) as file:
            refuse_too_large(3 * sum(member.file_size for member in file.infolist()), "", str(path))
            for name in file.namelist():
                content = file.read(name)
                start = io.BytesIO(content)
                version = np.lib.format.read_magic(start)
                first = version == (1, 0)
                read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(start)
                if dtype.hasobject:
                    values[name.removesuffix(".npy")] = read_pickle(start, f"{path}: {name}")
                else:
                    values[name.removesuffix(".npy")] = np.lib.format.read_array(
                        io.BytesIO(content), allow_pickle=False
                    )
    except ScenarioError:
        raise
    except Exception as error:  # so may a damaged archive
        raise broken(path, f"is not a readable .npz file ({' '.join(str(error).split())[:200]})") from None
    return values
