"""simfl: an agent-based discrete-event simulator of federated learning.

From Python: :func:`load` a scenario, :func:`run` it, :func:`sweep` its keys, :func:`compare` choices, and :func:`open`
what they have left on disk.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from simfl.version import VERSION as __version__

if TYPE_CHECKING:
    from simfl.api import compare, load, open, run, sweep

__all__ = ["__version__", "compare", "load", "open", "run", "sweep"]

_CALLED = {"run", "sweep", "compare"}
"""Modules that are functions too: ``simfl.run(...)`` beside ``from simfl.run import verify``."""


def __getattr__(name: str) -> Any:
    if name in _CALLED:
        return import_module(f"simfl.{name}")
    if name in __all__:
        return getattr(import_module("simfl.api"), name)
    raise AttributeError(f"module 'simfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Called(ModuleType):
    """A module that is called like the function of :mod:`simfl.api` of its name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return getattr(import_module("simfl.api"), self.__name__.rpartition(".")[2])(*arguments, **options)


class _Package(ModuleType):
    """This package. Whoever imports a submodule, Python binds it here; so its callable ones know nothing of the api."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _Called
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
