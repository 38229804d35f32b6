"""What plugins answer, looked at once where it is asked for: shapes, types, ranges."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError

S = TypeVar("S", bound=np.generic)


def read_only(array: NDArray[S]) -> NDArray[S]:
    """A view of the array through which it cannot be changed."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


def describe_type(value: object) -> str:
    """A value in words, for a message: an array's type and shape, or the type of anything else."""
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def checked_type(value: object, kinds: type | tuple[type, ...], plugin: object, method: str, wanted: str) -> None:
    """Refuses what a plugin's method gave if it is none of these types.

    Raises:
        PluginError: it is another type.
    """
    if not isinstance(value, kinds):
        raise PluginError(plugin, f"{method} must give {wanted}, not {describe_type(value)}")


def checked_pair(value: object, plugin: object, method: str, wanted: str) -> None:
    """Refuses what a plugin's method gave if it is no tuple of two.

    Raises:
        PluginError: it is something else.
    """
    if not isinstance(value, tuple) or len(value) != 2:
        raise PluginError(plugin, f"{method} must give {wanted}, not {describe_type(value)}")


def checked_arrays(state: object, plugin: object, method: str) -> dict[str, Any]:
    """What a plugin's method gave to be kept, if it is arrays by name: as a checkpoint would give it back, so that
    lists and numbers are arrays at once, not only after a resume.

    Raises:
        PluginError: it is something else.
    """
    checked_type(state, Mapping, plugin, method, "arrays by name")
    assert isinstance(state, Mapping)
    for name, value in state.items():
        if not isinstance(name, str) or not _is_array(value):
            why = f"{method} must give arrays by name, and gives {describe_type(value)} as {name!r}"
            raise PluginError(plugin, why)
    return {name: np.asarray(value) for name, value in state.items()}


def _is_array(value: object) -> bool:
    try:
        return not np.asarray(value).dtype.hasobject
    except (ValueError, TypeError, RuntimeError):  # lists of different lengths, tensors that numpy cannot read
        return False


def checked_vectors(values: object, shape: tuple[int | None, ...], plugin: object, method: str) -> None:
    """Refuses what a plugin's method gave if it is no array of this shape; None = any length.

    Raises:
        PluginError: it is something else.
    """
    actual = values.shape if isinstance(values, np.ndarray) and values.dtype.kind in "fiub" else ()
    if len(actual) != len(shape) or any(n not in (None, m) for n, m in zip(shape, actual)):
        words = ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "")
        raise PluginError(plugin, f"what {method} must be an array of shape ({words}), not {describe_type(values)}")


def checked_groups(groups: object, clients: int, plugin: object, method: str) -> tuple[NDArray[np.int32], ...]:
    """The arrays of clients that a plugin's method gave, if each has some of them once, ascending.

    Raises:
        PluginError: it gave something else.
    """
    checked_type(groups, (tuple, list), plugin, method, "a tuple of arrays of clients")
    assert isinstance(groups, Sequence)
    for group in groups:
        if not isinstance(group, np.ndarray) or group.dtype.kind not in "iu" or group.ndim != 1:
            raise PluginError(plugin, f"{method} must give arrays of clients, int32 (n,), not {describe_type(group)}")
        if group.size and (group[0] < 0 or group[-1] >= clients or (group[1:] <= group[:-1]).any()):
            wanted = f"clients from 0 to {clients - 1}, ascending and each once"
            raise PluginError(plugin, f"{method} must give {wanted}, not {group[:8].tolist()}")
    return tuple(group.astype(np.int32, copy=False) for group in groups)


def checked_numbers(
    values: object, n: int, plugin: object, method: str, low: float, high: float, wanted: str, nan: bool = False
) -> NDArray[np.float64]:
    """The values, if they are ``n`` numbers with ``low <= value <= high``; infinity never is.

    Args:
        values: the answer.
        n: how many there should be.
        plugin: who gave it.
        method: asked by this name.
        low, high: bounds.
        wanted: what was asked for, in words.
        nan: whether NaN is an answer too.

    Raises:
        PluginError: they are not.
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu" or values.shape != (n,):
        raise PluginError(plugin, f"{method} must give {n} {wanted}, not {describe_type(values)}")
    if nan:
        fits = np.isnan(values) | ((values >= low) & (values <= high))
    else:
        fits = np.isfinite(values) & (values >= low) & (values <= high)
    if not fits.all():
        raise PluginError(plugin, f"{method} must give {wanted}, not {values[np.argmin(fits)]:g}")
    return values
