"""What plugins answer, looked at once where it is asked for: shapes, types, ranges."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.errors import PluginError

__all__ = ["checked_numbers", "described", "read_only"]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the array through which it cannot be changed."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


def described(value: Any) -> str:
    """A value in words, for a message: an array's type and shape, or the type of anything else."""
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def checked_numbers(
    values: Any, n: int, plugin: object, method: str, low: float, high: float, wanted: str, nan: bool = False
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
        raise PluginError(plugin, f"{method} must give {n} {wanted}, not {described(values)}")
    if nan:
        fits = np.isnan(values) | ((values >= low) & (values <= high))
    else:
        fits = np.isfinite(values) & (values >= low) & (values <= high)
    if not fits.all():
        raise PluginError(plugin, f"{method} must give {wanted}, not {values[np.argmin(fits)]:g}")
    return values
