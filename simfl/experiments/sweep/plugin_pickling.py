"""Plugins on their way to a worker process: those of a notebook or a script by value, those of a module by its name.

simfl's own plugins are there already, and those of plugin files come with the scenario that names them.
"""

import base64
import dataclasses
import io
import json
import pickle
from collections.abc import Iterable

import cloudpickle

from simfl.core.errors import PluginError
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.packages import raised_at
from simfl.core.registration.protocol import Plugin


def pack(classes: Iterable[type[Plugin]]) -> str:
    """Plugins as text.

    Raises:
        PluginError: a plugin of a notebook or script holds something that cannot be sent to another process.
    """
    packed = []
    for cls in sorted(set(classes), key=lambda cls: (cls.__module__, cls.__qualname__)):
        family = next(name for name, registry in FAMILIES.items() if registry.get(cls.name) is cls)
        try:
            packed.append([family, cls.name, base64.b64encode(_dump(cls)).decode()])
        except Exception as error:  # anything that its code refers to may refuse
            raise PluginError(f"{family} '{cls.name}'", f"cannot be sent to worker processes: {error}") from error
    return json.dumps(packed) if packed else ""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Keeps ``dataclasses.MISSING`` the one that fields are compared with."""

    def reducer_override(self, value: object) -> object:
        if value is dataclasses.MISSING:
            return getattr, (dataclasses, "MISSING")
        return super().reducer_override(value)


def _dump(cls: type) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(cls)
    return buffer.getvalue()


def unpack(text: str) -> None:
    """Registers packed plugins in this process.

    Raises:
        PluginError: the module of one cannot be imported here.
    """
    for family, name, content in json.loads(text) if text else ():
        try:
            # from the process that started this worker; imports the module of one that came by name
            cls = pickle.loads(base64.b64decode(content))  # noqa: S301
        except Exception as error:
            raise PluginError(f"{family} '{name}'", f"cannot be loaded by a worker: {raised_at(error)}") from error
        if FAMILIES[family].get(name) is not cls:
            FAMILIES[family](name)(cls)
