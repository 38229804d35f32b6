"""Plugins on their way to a worker process: those of a notebook or a script by value, those of a module by its name.

simfl's own plugins are there already, and those of plugin files come with the scenario that names them.
"""

import base64
from collections.abc import Iterable

import cloudpickle

from simfl.errors import PluginError
from simfl.packages import raised_at
from simfl.registry import FAMILIES

__all__ = ["pack", "unpack"]


def pack(classes: Iterable[type]) -> str:
    """Plugins as text.

    Raises:
        PluginError: a plugin of a notebook or script holds something that cannot be sent to another process.
    """
    packed = {}
    for cls in sorted(set(classes), key=lambda cls: (cls.__module__, cls.__qualname__)):
        family = next(name for name, registry in FAMILIES.items() if registry.get(cls.name) is cls)
        try:
            packed[family, cls.name] = cloudpickle.dumps(cls)
        except Exception as error:  # anything that its code refers to may refuse
            raise PluginError(f"{family} '{cls.name}'", f"cannot be sent to worker processes: {error}") from error
    return base64.b64encode(cloudpickle.dumps(packed)).decode() if packed else ""


def unpack(text: str) -> None:
    """Registers packed plugins in this process.

    Raises:
        PluginError: the module of one cannot be imported here.
    """
    packed = cloudpickle.loads(base64.b64decode(text)) if text else {}
    for (family, name), content in packed.items():
        try:
            cls = cloudpickle.loads(content)  # imports the module of one that came by name
        except Exception as error:
            raise PluginError(f"{family} '{name}'", f"cannot be loaded by a worker: {raised_at(error)}") from error
        if FAMILIES[family].get(name) is not cls:
            FAMILIES[family](name)(cls)
