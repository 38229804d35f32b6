"""simfl: an agent-based discrete-event simulator of federated learning.

From Python: :func:`load` a scenario, :func:`run` it, :func:`sweep` its keys, :func:`compare` choices, and :func:`open`
what they have left on disk.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.api import compare, load, open, run, sweep

__version__ = "0.1.0"

RESULTS = 1
"""Counts the changes that alter results of existing scenarios (CHANGELOG.md, Results); it is part of every digest, so
that results of an older simfl are never taken for complete."""

__all__ = ["RESULTS", "__version__", "compare", "load", "open", "run", "sweep"]

_MODULES = {"run", "sweep", "compare"}
"""Modules that are functions too."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"simfl.{name}")
    if name in __all__:
        return getattr(import_module("simfl.api"), name)
    raise AttributeError(f"module 'simfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
