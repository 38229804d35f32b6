"""Plugins and Python objects on their way to a worker process.

Plugins of a notebook or a script go by value, those of a module by its name; simfl's own are there already, and those
of plugin files come with the scenario that names them. Objects go by value, in a file that lies in the sweep's folder
while it runs, which workers on other machines see, too. A worker reads the file only if its SHA-256 is the one that
the sweep has told it, because reading it executes code.
"""

import base64
import dataclasses
import io
import json
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import cloudpickle

from simfl.core.errors import PluginError, SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.packages import raised_at
from simfl.core.registration.protocol import Plugin
from simfl.core.storage.disk import write_atomically

if TYPE_CHECKING:
    from simfl.learning.objects.handles import Handle


def pack(classes: Iterable[type[Plugin]]) -> str:
    """Plugins as text.

    Raises:
        PluginError: a plugin of a notebook or script holds something that cannot be sent to another process.
    """
    packed = []
    for cls in sorted(set(classes), key=lambda cls: (cls.__module__, cls.__qualname__)):
        family = next(name for name, registry in FAMILIES.items() if registry.get(cls.name) is cls)
        try:
            buffer = io.BytesIO()
            _Pickler(buffer).dump(cls)
            packed.append([family, cls.name, base64.b64encode(buffer.getvalue()).decode()])
        except Exception as error:  # anything that its code refers to may refuse
            raise PluginError(f"{family} '{cls.name}'", f"cannot be sent to worker processes: {error}") from error
    return json.dumps(packed) if packed else ""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Keeps ``dataclasses.MISSING`` the one that fields are compared with."""

    def reducer_override(self, value: object) -> object:
        if value is dataclasses.MISSING:
            return getattr, (dataclasses, "MISSING")
        return super().reducer_override(value)


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


@contextmanager
def written_objects(handles: "Sequence[Handle]", folder: Path) -> Iterator[tuple[str, str] | tuple[()]]:
    """A block in which the objects lie in a file; its path and SHA-256, or nothing where there are no objects.

    Raises:
        SimflError: an object cannot be sent to another process.
    """
    if not handles:
        yield ()
        return
    packed = io.BytesIO()
    for handle in handles:
        try:
            packed.write(cloudpickle.dumps(handle))
        except Exception as error:  # anything that it refers to may refuse
            raise SimflError(f"{handle.label} cannot be sent to worker processes: {error}") from error
    with tempfile.TemporaryDirectory(prefix=".objects-", dir=folder) as scratch:
        path = Path(scratch, "objects.pickle").resolve()
        write_atomically(path, packed.getvalue())
        yield str(path), sha256(packed.getvalue()).hexdigest()


@cache
def read_objects(path: str = "", digest: str = "") -> "tuple[Handle, ...]":
    """Makes the objects in a file known to this process, for as long as it lives.

    Raises:
        SimflError: it is not the file that was written_objects, or an object cannot be loaded here.
    """
    if not path:
        return ()
    from simfl.learning.objects.handles import keep

    content = Path(path).read_bytes()
    if sha256(content).hexdigest() != digest:
        raise SimflError(f"{path}: not the objects that the sweep has written")
    stream, handles = io.BytesIO(content), []
    try:
        while stream.tell() < len(content):
            handles.append(keep(pickle.load(stream)))  # noqa: S301  # its SHA-256 is the sweep's
    except Exception as error:  # somebody else's classes may raise anything
        raise SimflError(f"an object that was passed cannot be loaded by a worker: {error}") from error
    return tuple(handles)
