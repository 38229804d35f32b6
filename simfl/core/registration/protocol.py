"""What every plugin is, whatever its family, and what its family's protocol makes of a class."""

import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from functools import cached_property
from inspect import Parameter, get_annotations, getattr_static, getsourcefile, isroutine, signature
from math import isfinite
from types import FunctionType
from typing import Any, ClassVar, Protocol, Self, TypeGuard, get_type_hints
from weakref import WeakKeyDictionary

from simfl.core.errors import PluginError
from simfl.core.scenario_view import ScenarioView

registered: WeakKeyDictionary[type, type] = WeakKeyDictionary()
"""The protocol of every class that has been registered, also of one that has been defined anew since."""

HARMLESS = frozenset(
    "name columns example check cautions resolve unsaid _abc_impl _is_protocol _is_runtime_protocol".split()
)
"""What a derived class may change without changing what the plugin does."""

CHANGING = frozenset({"__post_init__", "__getattribute__", "__getattr__", "__new__"})
"""The special methods by which it may."""

Problem = tuple[str, str]
"""(key relative to the plugin, message); an empty key means the plugin as a whole."""

SINCE_LATER = {"omit_default": True}
"""Metadata of a field that plugins and sections did not have when results were published: scenarios that do not use it
keep their resolved form, and with it their digest."""


class Plugin(Protocol):
    """What every plugin has, whatever its family; a class that lacks one of these gets it when it is registered.

    Attributes:
        name: what the scenario calls it; set when it is registered, empty before.
        example: values of fields with which the plugin can be built, as YAML data: at least of the required ones.
        unsaid: what a class that it is derived from promises, and it does not repeat; set when it is registered.
    """

    name: ClassVar[str] = ""
    unsaid: ClassVar[tuple[str, ...]] = ()
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


NO_KEY = re.compile(r"\b(ClassVar|Final)\b")
"""In an annotation of what is no key, also where it is a text."""


def refuse_fields(cls: type, protocol: type, what: str) -> None:
    """
    Raises:
        TypeError: it has no keys, as it is no dataclass, or some that no scenario can give.
    """
    words = "must be a dataclass; write @dataclass(frozen=True) above its class"
    if not is_dataclass(cls):
        raise TypeError(f"{what} {words}")
    keys = {field.name for field in fields(cls)}
    no_keys = {name for each in protocol.__mro__ for name in get_annotations(each)} - keys
    said = {key for key, hint in get_annotations(cls).items() if key[0] != "_" and not NO_KEY.search(str(hint))}
    if said - no_keys and "__dataclass_fields__" not in vars(cls):
        raise TypeError(f"{what} {words}")
    for field in fields(cls):
        if field.name == "name":
            raise TypeError(f"{what} has a field 'name': that key chooses the plugin")
        if isinstance(field.default, property) or isroutine(field.default):
            raise TypeError(f"{what}: '{field.name}' is a field and a method; leave one of them out")
        is_key = field.init and field.metadata.get("yaml", True)
        if is_key and isinstance(field.default, float) and not isfinite(field.default):
            raise TypeError(f"{what}: the default of '{field.name}' is {field.default}, which no scenario can give")


def hold_to(protocol: type, cls: type, what: str, derived: tuple[str, ...], promises: tuple[str, ...]) -> None:
    """Makes a class one of the protocol's plugins.

    Args:
        protocol: of its family.
        cls: the class.
        what: it is, for messages.
        derived: what the protocol makes of the rest of it.
        promises: what its own class has to say.

    Raises:
        TypeError: it is none.
    """
    _refuse_derived(cls, protocol, derived, what)
    if not cls.__module__.startswith("simfl."):
        refuse_misfits(cls, protocol, what)
    _forget_promises(cls, protocol, promises)
    for wanted in (protocol, Plugin):
        _add_protocol_defaults(cls, wanted, what)


def _add_protocol_defaults(cls: type, protocol: type, what: str) -> None:
    """Gives the class what the protocol has a value or a body for.

    Raises:
        TypeError: the class lacks something for which there is none.
    """
    if not getattr(protocol, "_is_protocol", False) and not issubclass(cls, protocol):
        raise TypeError(f"{what} does not inherit from {_public_name(protocol)}")
    known: set[str] = {*dir(cls), *(f.name for f in fields(cls))}
    optional = {name: item for name, item in vars(protocol).items() if not name.startswith("_")}
    needed: frozenset[str] = getattr(protocol, "__abstractmethods__", frozenset())
    declared = {*needed, *protocol.__annotations__} - {"name"}
    undefined: frozenset[str] = getattr(cls, "__abstractmethods__", frozenset())
    if lacking := sorted(undefined | declared - known - (optional.keys() - needed)):
        raise TypeError(f"{what} lacks {', '.join(lacking)}; {_public_name(protocol)} says what that is")
    for name in optional.keys() - needed - known:
        setattr(cls, name, optional[name])


def _public_name(protocol: type) -> str:
    """Where authors of plugins import a protocol from."""
    public = (name for name, module in list(sys.modules.items())
              if name.startswith("simfl.plugins.") and vars(module).get(protocol.__name__) is protocol)  # fmt: skip
    return f"{next(public, protocol.__module__)}.{protocol.__name__}"


def _refuse_derived(cls: type, protocol: type, names: tuple[str, ...], what: str) -> None:
    """
    Raises:
        TypeError: the class says itself what the protocol makes of the rest of it.
    """
    for name in names:
        if name in dir(cls) and getattr_static(cls, name) is not vars(protocol)[name]:
            raise TypeError(f"{what}: '{name}' follows from what else it says, and cannot be given")


def _forget_promises(cls: type, protocol: type, names: tuple[str, ...]) -> None:
    """Takes from a class what others promise of themselves: a promise speaks of what its own class does, so that one
    which changes anything of that has to give it anew. Classes of simfl itself are looked at one by one, by tests.
    """
    if cls.__module__.startswith("simfl."):
        return
    keys = {f.name for f in fields(cls)}
    unsaid = tuple(name for name in names if name not in keys and _is_inherited(cls, protocol, name, keys))
    for name, value in [("unsaid", unsaid), *((name, getattr_static(protocol, name)) for name in unsaid)]:
        setattr(cls, name, value)


def _is_inherited(cls: type, protocol: type, name: str, keys: set[str]) -> bool:
    """Whether another class promises this, and one that it is not made of changes anything."""
    ours = {each for each in cls.__mro__ if each in registered and each.__module__.startswith("simfl.")}
    says = next((each for each in cls.__mro__ if name in vars(each) or each in ours), protocol)
    if says in protocol.__mro__ or getattr_static(cls, name, None) is getattr_static(protocol, name):
        return False
    others = [each for each in cls.__mro__ if each not in says.__mro__]
    changed = {it for each in others for it in vars(each) if not it.startswith("__") or it in CHANGING}
    return bool(changed - HARMLESS - keys)


def is_foreign(plugin: object) -> bool:
    """Whether its class is none of simfl's own, which tests look at."""
    return not type(plugin).__module__.startswith("simfl.")


def refuse_altered(plugin: object) -> None:
    """
    Raises:
        PluginError: its class has never been held to a protocol, or it has set more of itself than its fields, such as
            a method, which its class does not tell.
    """
    if not is_plugin(plugin):
        raise PluginError(type(plugin).__name__, "stands for a plugin, but is not registered itself; register it")
    usual = {f.name for f in fields(plugin)}
    usual |= {name for cls in type(plugin).__mro__ for name, it in vars(cls).items() if isinstance(it, cached_property)}
    if altered := sorted(vars(plugin).keys() - usual):
        raise PluginError(plugin, f"sets '{altered[0]}' of itself, which is no field; a class has to say it")


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


def default_of(field: "Field[Any]") -> Any:
    """The default of a dataclass field, ``dataclasses.MISSING`` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def required_fields(cls: type) -> list[str]:
    """The fields of a dataclass that have no default."""
    return [f.name for f in fields(cls) if f.init and default_of(f) is MISSING]


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def plain(value: Any) -> Any:
    """The value as YAML/JSON data: plugins become mappings with their ``name`` first.

    A field with ``metadata={"yaml": False}`` is left out; one with :data:`SINCE_LATER` is while it has its default.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if is_plugin(value) else {}
        shown = [(f, getattr(value, f.name)) for f in fields(value) if f.metadata.get("yaml", True)]
        left = [f.name for f, it in shown if f.metadata.get("omit_default", False) and it == default_of(f)]
        return named | {f.name: plain(it) for f, it in shown if f.name not in left}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


METHODS = FunctionType, staticmethod, classmethod
ALIKE = 0.85
"""From here on one name is taken for a slip of the other (``difflib``)."""


def refuse_misfits(cls: type, protocol: type, what: str) -> None:
    """Refuses a plugin that simfl cannot call as its protocol says, by the parameters and names of its hooks.

    Args:
        cls: a plugin, or a class that derives from one of simfl.
        protocol: of its family; ``object`` = it is no plugin.
        what: it is, for messages.

    Raises:
        TypeError: a key has the name of a hook that is called; a hook takes other parameters than simfl gives it; or a
            method or constant of its module is named almost as one that is not given, a method with such parameters.
    """
    ours = [each for each in cls.__mro__ if each.__module__.startswith("simfl.")] + [*protocol.__mro__]
    said = {name: item for each in reversed(cls.__mro__) if each not in ours for name, item in vars(each).items()}
    hooks = {name: item for each in reversed(ours) for name, item in vars(each).items() if name[0] != "_"}
    said_names = {name for each in ours for name in get_annotations(each)}
    keys = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
    if clashes := sorted(name for name in keys if isinstance(hooks.get(name), FunctionType) and protocol is not object):
        raise TypeError(
            f"{what}: its key '{clashes[0]}' has the name of a method that simfl calls; call it '{clashes[0]}_'"
        )
    in_module = {name for each in cls.__mro__ if each.__module__ == cls.__module__ for name in vars(each)}
    for name, item in said.items():
        if isinstance(item, METHODS) and isinstance(hooks.get(name), FunctionType):
            if error := _misfit(item, hooks[name]):
                words = ", ".join([*signature(hooks[name]).parameters][1:])
                raise TypeError(f"{what}: {name} is called with ({words}): {error}")
        if protocol is not object and name[0] != "_" and name in in_module - {*hooks, *said_names, *keys}:
            is_method = isinstance(item, METHODS)
            left = {each for each in {*hooks, *said_names} - {*said, "name", "unsaid"}
                    if isinstance(hooks.get(each), FunctionType) is is_method}  # fmt: skip
            for near in get_close_matches(name, sorted(left), 1, ALIKE):
                if not is_method or _is_slip(item, hooks[near]):
                    why = f"simfl does not read '{name}'; did you mean '{near}'? else call it '_{name}'"
                    raise TypeError(f"{what}: {why}")


def _is_slip(method: Any, wanted: FunctionType) -> bool:
    """Whether a method that has another name is meant for this one: it takes the same, or some of it by its names."""
    function = method if isinstance(method, FunctionType) else method.__func__
    if not isinstance(function, FunctionType):
        return False
    names = {*signature(function, follow_wrapped=False).parameters} - {"self", "cls"}
    return not _misfit(method, wanted) or bool(names) and names <= {*signature(wanted).parameters}


def _misfit(hook: "FunctionType | staticmethod[..., Any] | classmethod[Any, ..., Any]", wanted: FunctionType) -> str:
    """Why it cannot be called as the wanted one is; empty if it can, as its decorators let it."""
    named = [*signature(wanted).parameters.values()]
    some = [each for each in named if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    more = {each.name: None for each in named if each.kind is Parameter.KEYWORD_ONLY}
    try:
        function = hook if isinstance(hook, FunctionType) else hook.__func__
        signature(function, follow_wrapped=False).bind(*some[isinstance(hook, staticmethod) :], **more)
    except TypeError as error:
        return str(error)
    except ValueError:  # a function in C whose parameters are not known
        pass
    return ""
