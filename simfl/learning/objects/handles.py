"""Python objects that a caller has handed in, known by the fingerprints with which scenarios name them.

A scenario is text, also in a worker process and in a results folder. It therefore names an object by its class and
fingerprint (``mymodule.Net#0123456789abcdef``), and the object itself lies here as long as a call or a scenario that
was made with it holds its handle.
"""

import copy
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from simfl.core.errors import SimflError
from simfl.learning.objects.fingerprint import LIBRARIES, fingerprint
from simfl.learning.objects.index_lists import read_partition
from simfl.learning.objects.networks import read_model
from simfl.learning.objects.samples import read_samples

READERS: Mapping[str, Callable[[object], object]] = {
    "learning.model": read_model,
    "learning.data": read_samples,
    "learning.partition": read_partition,
}
"""What makes of an object at a key what simfl works with, or says in a ValueError why it cannot."""


@dataclass(frozen=True, eq=False)
class Handle:
    """An object that was handed in.

    Attributes:
        label: its class or name, as in ``mymodule.Net``.
        fingerprint: of the content of ``value``.
        value: what :data:`READERS` made of it.
    """

    label: str
    fingerprint: str
    value: Any

    @property
    def text(self) -> str:
        """What stands for it in a scenario."""
        return f"{self.label}#{self.fingerprint}"


_handles: "WeakValueDictionary[str, Handle]" = WeakValueDictionary()


def take(key: str, source: object) -> Handle:
    """The handle of an object for a key of :data:`READERS`.

    Raises:
        SimflError: it is no such object; one line.
    """
    try:
        value = READERS[key](source)
    except ValueError as error:
        raise SimflError(f"{key}: {error}") from None
    return keep(Handle(label_of(source) or key.rpartition(".")[2], fingerprint(value), snapshot(value)))


def keep(handle: Handle) -> Handle:
    """Makes a handle known for as long as somebody holds what is returned: this one, or an earlier one of the same."""
    known = _handles.get(handle.fingerprint)
    if known is not None and fingerprint(known.value) == known.fingerprint:
        return known
    _handles[handle.fingerprint] = handle
    return handle


def find(mark: str) -> Handle | None:
    """The handle with this fingerprint, if it is held."""
    return _handles.get(mark)


def snapshot(value: object) -> object:
    """A copy, so that later changes of the original change nothing; data sets, which may be large, are not copied."""
    torch = sys.modules.get("torch")
    return copy.deepcopy(value) if torch is not None and isinstance(value, torch.nn.Module) else value


def label_of(value: object) -> str:
    """What a user would call the object: its name if it is a class or function, else its class's; empty for a list."""
    named = value if isinstance(value, type) or inspect.isroutine(value) else type(value)
    package = named.__module__.partition(".")[0]
    module = "" if package == "__main__" or package in LIBRARIES else named.__module__
    name = "" if package == "builtins" else f"{module}.{named.__qualname__}".replace("<locals>.", "")
    return re.sub(r"[^\w.]", "", name)[-100:].strip(".")
