"""What plugins import: this package and its modules, one a family; nothing else of simfl is promised to stay.

Here stand the values that all families share (``simfl.plugins.values``, imported when one of them is asked for); the
registry, the protocols and what else a family offers stand in ``simfl.plugins.<family>``, and what commands of other
packages are made of in ``simfl.plugins.commands``. None of these modules imports torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.plugins.values import *  # noqa: F403


def __getattr__(name: str) -> Any:
    values = {} if name.startswith("_") else vars(import_module("simfl.plugins.values"))
    if name not in values:
        raise AttributeError(f"module 'simfl.plugins' has no attribute {name!r}")
    return values[name]
