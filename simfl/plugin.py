"""What every plugin is, whatever its family, and what its family's protocol makes of a class."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self, get_type_hints
from weakref import WeakSet

from simfl.setting import Setting

__all__ = ["Plugin", "Problem", "annotated", "completed", "is_plugin", "registered"]

registered: WeakSet[type] = WeakSet()
"""Every class that has been registered, also one that has been defined anew since."""

Problem = tuple[str, str]
"""(key relative to the plugin, message); an empty key means the plugin as a whole."""


class Plugin(Protocol):
    """What every plugin has, whatever its family; a class that lacks one of these gets it when it is registered.

    Attributes:
        name: what the scenario calls it; set when it is registered.
        example: values of fields with which the plugin can be built, as YAML data: at least of the required ones.
    """

    name: ClassVar[str]
    example: ClassVar[Mapping[str, Any]] = {}

    def check(self, setting: Setting) -> list[Problem]:
        """What cannot work in this setting, with the nearest values that can."""
        return []

    def cautions(self, setting: Setting) -> list[str]:
        """What works, but is perhaps not what was meant; ``simfl validate`` and ``run`` say it."""
        return []

    def resolve(self, setting: Setting) -> Self:
        """The plugin with its automatic fields filled in.

        Raises:
            ScenarioError: no value fits; its key is relative to the plugin.
        """
        return self


def is_plugin(value: Any) -> bool:
    """Whether the value is a plugin of some family."""
    return type(value) in registered


def completed(cls: type, protocol: type, what: str) -> None:
    """Gives the class what the protocol has a value or a body for.

    Raises:
        TypeError: the class lacks something for which there is none.
    """
    known = {*dir(cls), *(f.name for f in fields(cls))}
    optional = {name: item for name, item in vars(protocol).items() if not name.startswith("_")}
    needed = getattr(protocol, "__abstractmethods__", frozenset())
    declared = {*needed, *protocol.__annotations__} - {"name"}
    if lacking := sorted(declared - known - (optional.keys() - needed)):
        said = f"{protocol.__module__}.{protocol.__name__}"
        raise TypeError(f"{what} lacks {', '.join(lacking)}; {said} says what that is")
    for name in optional.keys() - needed - known:
        setattr(cls, name, optional[name])


def annotated(cls: type) -> None:
    """Resolves annotations that are texts, so that the class needs nothing of its module to be validated."""
    if any(isinstance(f.type, str) for f in fields(cls)):
        hints = get_type_hints(cls, include_extras=True)
        for f in fields(cls):
            f.type = cls.__annotations__[f.name] = hints[f.name]
