"""What every plugin is, whatever its family, and what its family's protocol makes of a class."""

from collections.abc import Mapping
from dataclasses import Field, fields
from inspect import getattr_static, getsourcefile
from typing import Any, ClassVar, Protocol, Self, TypeGuard, get_type_hints
from weakref import WeakSet

from simfl.core.scenario_view import ScenarioView

registered: WeakSet[type] = WeakSet()
"""Every class that has been registered, also one that has been defined anew since."""

Problem = tuple[str, str]
"""(key relative to the plugin, message); an empty key means the plugin as a whole."""


class Plugin(Protocol):
    """What every plugin has, whatever its family; a class that lacks one of these gets it when it is registered.

    Attributes:
        name: what the scenario calls it; set when it is registered, empty before.
        example: values of fields with which the plugin can be built, as YAML data: at least of the required ones.
    """

    name: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    example: ClassVar[Mapping[str, object]] = {}

    def check(self, setting: ScenarioView) -> list[Problem]:
        """What cannot work in this setting, with the nearest values that can."""
        return []

    def cautions(self, setting: ScenarioView) -> list[str]:
        """What works, but is perhaps not what was meant; ``simfl validate`` and ``run`` say it."""
        return []

    def resolve(self, setting: ScenarioView) -> Self:
        """The plugin with its automatic fields filled in.

        Raises:
            ScenarioError: no value fits; its key is relative to the plugin.
        """
        return self


def is_plugin(value: object) -> TypeGuard[Plugin]:
    """Whether the value is a plugin of some family."""
    return type(value) in registered


def add_protocol_defaults(cls: type, protocol: type, what: str) -> None:
    """Gives the class what the protocol has a value or a body for.

    Raises:
        TypeError: the class lacks something for which there is none.
    """
    said = f"{protocol.__module__}.{protocol.__name__}"
    if not getattr(protocol, "_is_protocol", False) and not issubclass(cls, protocol):
        raise TypeError(f"{what} does not inherit from {said}")
    known: set[str] = {*dir(cls), *(f.name for f in fields(cls))}
    optional = {name: item for name, item in vars(protocol).items() if not name.startswith("_")}
    needed: frozenset[str] = getattr(protocol, "__abstractmethods__", frozenset())
    declared = {*needed, *protocol.__annotations__} - {"name"}
    undefined: frozenset[str] = getattr(cls, "__abstractmethods__", frozenset())
    if lacking := sorted(undefined | declared - known - (optional.keys() - needed)):
        raise TypeError(f"{what} lacks {', '.join(lacking)}; {said} says what that is")
    for name in optional.keys() - needed - known:
        setattr(cls, name, optional[name])


def refuse_derived(cls: type, protocol: type, names: tuple[str, ...], what: str) -> None:
    """
    Raises:
        TypeError: the class says itself what the protocol makes of the rest of it.
    """
    for name in names:
        if name in dir(cls) and getattr_static(cls, name) is not vars(protocol)[name]:
            raise TypeError(f"{what}: '{name}' follows from what else it says, and cannot be given")


def resolve_annotations(cls: type) -> None:
    """Resolves annotations that are texts, so that the class needs nothing of its module to be validated."""
    if any(isinstance(f.type, str) for f in fields(cls)):
        hints = get_type_hints(cls, include_extras=True)
        for f in fields(cls):
            f.type = cls.__annotations__[f.name] = hints[f.name]


def same_place(known: type, cls: type) -> bool:
    """Whether a class is a known one defined anew, as when a notebook's cell is run again."""
    return known.__module__ == "__main__" == cls.__module__ and known.__qualname__ == cls.__qualname__


def origin(cls: type) -> str:
    """The file that defines a class, for messages."""
    try:
        return getsourcefile(cls) or cls.__module__
    except (TypeError, OSError):
        return cls.__module__
