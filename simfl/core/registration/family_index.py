"""The families of plugins: every registry by the family's name, and what holds for all of them."""

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from inspect import isfunction, unwrap
from os.path import basename
from traceback import extract_tb, walk_tb
from typing import TYPE_CHECKING

from simfl.core.errors import PLUGIN_FILE
from simfl.core.registration.packages import Broken, raised_at
from simfl.core.registration.protocol import Plugin, is_plugin

if TYPE_CHECKING:
    from simfl.core.registration.registry import Registry


class _Families(MutableMapping[str, "Registry[Plugin]"]):
    """The registries by family name. Those of a scenario come first, and are imported when they are asked for."""

    modules: Mapping[str, str] = {
        "agents": "simfl.clients.client_agents",
        "client": "simfl.clients.base",
        "personal": "simfl.clients.base",
        "schedule": "simfl.clients.schedules",
        "attack": "simfl.attacks.base",
        "availability": "simfl.devices.base",
        "computation": "simfl.devices.base",
        "failure": "simfl.devices.base",
        "distribution": "simfl.core.distributions",
        "learning": "simfl.learning.base",
        "backend": "simfl.learning.backends.base",
        "data": "simfl.learning.data.base",
        "partition": "simfl.learning.partitions.base",
        "model": "simfl.learning.models.base",
        "transform": "simfl.learning.transforms.base",
        "metric": "simfl.metrics.base",
        "topology": "simfl.topology.base",
        "network": "simfl.network.base",
        "stage": "simfl.privacy.stage",
        "accountant": "simfl.privacy.accountant",
        "privacy": "simfl.privacy.base",
        "compression": "simfl.compression.base",
        "secagg": "simfl.secagg.base",
        "selection": "simfl.selection.base",
        "aggregate": "simfl.training.aggregates",
        "arrivals": "simfl.training.staleness",
        "training": "simfl.training.base",
        "server_optimiser": "simfl.training.optimisers",
        "staleness": "simfl.training.staleness",
    }
    """The module that defines each family's registry, in the order in which families are listed."""

    def __init__(self) -> None:
        self.imported: dict[str, Registry[Plugin]] = {}

    def __getitem__(self, family: str) -> "Registry[Plugin]":
        if family not in self.imported and family in self.modules:
            import_module(self.modules[family])
        return self.imported[family]

    def __setitem__(self, family: str, registry: "Registry[Plugin]") -> None:
        self.imported[family] = registry

    def __delitem__(self, family: str) -> None:
        del self.imported[family]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.modules, *(family for family in self.imported if family not in self.modules)])

    def __len__(self) -> int:
        return len(self.modules.keys() | self.imported.keys())


FAMILIES = _Families()
"""Every registry by family name."""


def family_registry(family: str) -> "Registry[Plugin]":
    """The registry of a family; of it travels the name only, as there is one a process."""
    return FAMILIES[family]


def broken() -> list[Broken]:
    """The plugins of installed packages that do not load, of every family."""
    for registry in FAMILIES.values():
        registry.load_packages()
    return [problem for registry in FAMILIES.values() for problem in registry.broken.values()]


@contextmanager
def undone() -> Iterator[Callable[[], None]]:
    """What is registered inside is forgotten again, unless the function that it yields has been called."""
    before = {family: dict(registry.imported_plugins()) for family, registry in FAMILIES.imported.items()}
    confirmations: list[bool] = []
    try:
        yield lambda: confirmations.append(True)
    finally:
        for family, registry in FAMILIES.imported.items() if not confirmations else ():
            registry.forget_all_but(before.get(family, {}))


def plugin_failure(error: BaseException) -> str | None:
    """``plugin selection 'mine' failed: file:line: Type: message``, or None where only simfl's own code was at work.

    It is a plugin's, if its file is on the way to where the error was raised.
    """
    files = {frame.filename for frame in extract_tb(error.__traceback__)}
    lacking = _file(type(error.obj)) if isinstance(error, AttributeError) and error.obj is not None else ""
    files.add(lacking)
    plugins_by_file: dict[str, list[str]] = {}
    for family, registry in FAMILIES.imported.items():
        for name, cls in registry.imported_plugins():
            if cls.__module__.partition(".")[0] != "simfl" and (file := _file(cls)) in files and file:
                plugins_by_file.setdefault(file, []).append(f"{family} '{name}'")
    for frame in reversed(extract_tb(error.__traceback__)):
        if frame.filename in plugins_by_file:
            which = " or ".join(plugins_by_file[frame.filename])
            return f"plugin {which} failed: {raised_at(error, frame.filename)}"
    for frame in reversed(extract_tb(error.__traceback__)):
        if frame.filename in plugin_file_paths():  # it registers no plugin of a family, but figures
            return f"plugin file {basename(frame.filename)} failed: {raised_at(error, frame.filename)}"
    if lacking in plugins_by_file:  # simfl asked an object of the plugin's for what it has not
        return f"plugin {' or '.join(plugins_by_file[lacking])} failed: {lacking}: {error}"
    return None


def suspect(error: BaseException) -> str:
    """Where simfl was at work on somebody else's plugin, which may have given what does not fit; empty if nowhere."""
    for (frame, _), place in zip(reversed([*walk_tb(error.__traceback__)]), reversed(extract_tb(error.__traceback__))):
        for value in frame.f_locals.values():
            if type(value).__module__.partition(".")[0] != "simfl" and (is_plugin(value) or _is_of_plugin_file(value)):
                what = f"{place.line} ({basename(place.filename)}:{place.lineno})"
                return f", perhaps by what {describe_plugin(value)} gives: {what}"
    return ""


def _is_of_plugin_file(value: object) -> bool:
    return type(value).__module__.startswith(PLUGIN_FILE)


def describe_plugin(value: object) -> str:
    """``selection 'mine'``, or the class of an object that a plugin file's code has made."""
    names = (f"{family} '{name}'" for family, registry in FAMILIES.imported.items()
             for name, cls in registry.imported_plugins() if cls is type(value))  # fmt: skip
    return next(names, f"{type(value).__qualname__} of {basename(_file(type(value)))}")


def plugin_file_paths() -> frozenset[str]:
    """The files that this process has executed as plugin files."""
    modules = ((name, module) for name, module in list(sys.modules.items()) if name.startswith(PLUGIN_FILE))
    return frozenset(str(module.__file__) for _, module in modules)


def _file(cls: type) -> str:
    """The file of a class's code, as tracebacks call it, also in notebooks; empty if it has no code of its own."""
    files = (unwrap(item).__code__.co_filename for item in vars(cls).values() if isfunction(item))
    return next((file for file in files if not file.startswith("<")), "")
