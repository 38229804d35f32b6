"""Python objects that a caller has handed in, or that a scenario names as module:attribute.

A scenario is text, also in a worker process and in a results folder. It therefore names an object by its class and
fingerprint (``mymodule.Net#0123456789abcdef``), and the object itself lies here as long as a call or a scenario that
was made with it holds its handle. ``mypackage.nets:Net`` is ``Net`` of the module ``mypackage.nets``. Modules are
looked for in the scenario file's folder, then on ``sys.path``, see :mod:`simfl.learning.objects.module_sources`.
"""

import copy
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.core.registration.packages import raised_at
from simfl.learning.objects.fingerprint import LIBRARIES, fingerprint
from simfl.learning.objects.module_sources import importable, module_sources
from simfl.learning.objects.networks import read_model
from simfl.learning.objects.samples import read_samples

IndexLists = tuple[NDArray[np.int64], ...]
NEEDED = (
    "a list of arrays of positions, one a client, a mapping of clients to them, or a function (labels, clients, rng) "
    "that gives one, is needed"
)


def read_partition(value: Any) -> IndexLists | Callable[..., object]:
    """The parts as int64 arrays, copied; a function as it is.

    Clients of a mapping stand by their numbers where these are 0, 1, 2, ..., else in its order.

    Raises:
        ValueError: it is neither.
    """
    if callable(value):
        return value
    if isinstance(value, Mapping):
        texts = {str(client): part for client, part in value.items()}
        numbers = [str(number) for number in range(len(value))]
        value = [texts[number] for number in numbers] if set(numbers) == set(texts) else list(value.values())
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise ValueError(f"{NEEDED} (got {type(value).__name__})")
    return tuple(_positions(part, client) for client, part in enumerate(value))


def _positions(part: object, client: int) -> NDArray[np.int64]:
    try:
        positions = np.array(part)
    except (TypeError, ValueError):
        raise ValueError(f"{NEEDED}; part {client} is {type(part).__name__}") from None
    if positions.ndim == 1 and not positions.size:
        return np.empty(0, dtype=np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(f"{NEEDED}; part {client} is {positions.dtype} of shape {positions.shape}")
    return positions.astype(np.int64)


def read_training(value: Any) -> Callable[..., object]:
    """A training function, as it is.

    Raises:
        ValueError: it is none.
    """
    try:
        inspect.signature(value).bind(None, None, None)
    except (TypeError, ValueError):
        known = label_of(value) or type(value).__name__
        raise ValueError(f"a function train(model, data, settings) is needed (got {known})") from None
    return value


READERS: Mapping[str, Callable[[object], object]] = {
    "learning.model": read_model,
    "learning.data": read_samples,
    "learning.partition": read_partition,
    "learning.backend": read_training,
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


def load(key: str, name: str, folder: Path) -> Handle:
    """The object that a scenario names at a key of :data:`simfl.learning.objects.handles.READERS`.

    Raises:
        ValueError: there is no such module or attribute, it fails, or it is no such object; one line.
    """
    sources = module_sources(name, folder)
    return _load(key, name, os.path.realpath(folder), tuple(source.mark for source in sources.values()))


@lru_cache(maxsize=8)
def _load(key: str, name: str, folder: str, content: tuple[str, ...]) -> Handle:
    module_name, _, attribute = name.partition(":")
    sources = module_sources(name, Path(folder))
    with importable(sources):
        value = _attribute(_module(module_name, folder), module_name, attribute)
        try:
            read = READERS[key](value)
        except (ValueError, SimflError) as error:
            raise ValueError(f"{name}: {error}") from None
    files = {each: source.digest for each, source in sources.items() if source.text.strip()}
    mark = fingerprint(read) if len(files) < 2 else fingerprint([read, files])
    return Handle(name, mark, snapshot(read))


def _module(module_name: str, folder: str) -> object:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ValueError(f"no module '{error.name}' in {folder} or on sys.path") from None
        raise ValueError(f"module '{module_name}' does not load: {error}") from error
    except Exception as error:  # somebody else's file may raise anything
        raise ValueError(f"module '{module_name}' does not load: {raised_at(error)}") from error


def _attribute(value: object, module_name: str, attribute: str) -> object:
    done = module_name
    for part in attribute.split("."):
        known = _attributes(value)
        if part not in known:
            near = get_close_matches(part, [each for each in known if not each.startswith("__")], 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"module '{module_name}' has no '{attribute}'{hint}")
        value = known[part]
        done = f"{done}.{part}"
    return value


def _attributes(value: object) -> dict[str, object]:
    try:
        return {**vars(type(value)), **vars(value)}
    except TypeError:  # a value without attributes of its own
        return {**vars(type(value))}
