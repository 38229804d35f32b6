"""Whether what a plugin of somebody else's says and gives is of the type that its family's protocol names."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from inspect import get_annotations, getattr_static, isdatadescriptor, isfunction, ismethoddescriptor
from itertools import chain
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from simfl.core.errors import PluginError
from simfl.core.registration.protocol import is_plugin, registered
from simfl.core.validation import describe_type

NUMBERS = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (float, int, np.floating, np.integer),
    str: (str,),
}
LOOKS = "_looks"
"""What functions have that look at what others give."""

ALIKE = (list, tuple), (set, frozenset), (dict, Mapping)
"""Types that are as good as each other."""


def hold_to_types(protocol: type, cls: type, family: str, name: str) -> None:
    """Has a class look at what its own members give, whenever they are asked, and those of its package's other classes.

    Args:
        protocol: of its family, whose annotations say the types; arrays are looked at where they are used.
        cls: the class.
        family: for messages.
        name: of the plugin.

    Raises:
        TypeError: a constant is of another type.
    """
    package = cls.__module__.partition(".")[0]
    near = (each for each in cls.__mro__[1:] if each.__module__.partition(".")[0] == package)
    bases = [each for each in near if each not in registered]
    keys = {each.name for each in fields(cls)}
    for owner, member, item in [(each, *pair) for each in (cls, *bases) for pair in vars(each).items()]:
        known = [each for each in protocol.__mro__ if member in vars(each) or member in get_annotations(each)]
        same = any(vars(each).get(member) is item for each in known)
        if member.startswith("_") or not known or same or member in keys:
            continue
        if isfunction(item):
            setattr(owner, member, _looking(as_written(item), member, family, protocol))
        elif isinstance(item, property) and item.fget is not None:
            setattr(owner, member, item.getter(_looking(as_written(item.fget), member, family, protocol)))
        elif getattr_static(cls, member) is item and not (ismethoddescriptor(item) or isdatadescriptor(item)):
            method = any(isfunction(vars(each).get(member)) for each in known)
            listed = member in ("columns", "finals") and isinstance(item, tuple)  # looked at with the scenario
            if not (method or listed or fits(item, hint := said_type(protocol, member))):
                raise TypeError(f"{family} '{name}': {member} must be {in_words(hint)}, not {item!r}")


def _looking(method: Callable[..., Any], name: str, family: str, protocol: type) -> Callable[..., Any]:
    """The function, refusing what it gives of another type."""

    @wraps(method)
    def gives(plugin: Any, *args: Any, **keywords: Any) -> Any:
        value, hint = method(plugin, *args, **keywords), said_type(protocol, name)
        if isinstance(value, Iterator) and get_origin(hint) is list:
            value = [*value]
        if not fits(value, hint):
            raise PluginError(f"{family} '{plugin.name}'", f"{name} must give {in_words(hint)}, not {seen_as(value)}")
        return value

    vars(gives)[LOOKS] = True
    return gives


def as_written(function: Any) -> Any:
    """A function as its class defines it, without the look at what it gives."""
    return vars(function)["__wrapped__"] if isfunction(function) and LOOKS in vars(function) else function


def seen_as(value: Any) -> str:
    """A value in words: its type, and those of what is in it; of a record the first value of a wrong one."""
    kind: Any = type(value)
    for name, item in _fields(value):
        if not fits(item, said_type(kind, name)):
            return f"{kind.__name__} with {name} = {describe_type(item)}"
    inside = chain(value, value.values()) if isinstance(value, Mapping) else value
    of = ", ".join(dict.fromkeys(map(seen_as, inside))) if isinstance(value, (*chain(*ALIKE),)) else ""
    return f"{describe_type(value)}{of and f'[{of}]'}"


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    """The names and values of a record: a named tuple or a dataclass."""
    if isinstance(value, tuple) and any("_fields" in vars(cls) for cls in type(value).__mro__):
        named: Any = value
        return named._asdict().items()
    known = fields(value) if is_dataclass(value) and not isinstance(value, type) else ()
    return ((each.name, getattr(value, each.name)) for each in known)


def in_words(hint: Any) -> str:
    """A type as it stands in source code."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(in_words, get_args(hint)))
    if hint in (None, NoneType, Self):
        return "a plugin" if hint is Self else "None"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is Callable:
        return "a function"
    inner = ", ".join("..." if each is ... else in_words(each) for each in get_args(hint))
    name = (get_origin(hint) or hint).__name__
    return f"{name}[{inner}]" if inner else name


@cache
def said_type(protocol: type, name: str) -> Any:
    """What the protocol says that a member gives; Any = nothing that can be looked at."""
    for cls in protocol.__mro__:
        item = vars(cls).get(name)
        source = item.fget if isinstance(item, property) else item
        said = source.__annotations__.get("return", Any) if isfunction(source) else get_annotations(cls).get(name, Any)
        if said is not Any:
            try:
                hint = get_type_hints(_One(said), vars(sys.modules[cls.__module__]))["it"]
                return _whole(get_args(hint)[0] if get_origin(hint) is ClassVar else hint)
            except NameError:  # a type that is imported for type checkers only
                return Any
    return Any


class _One:
    """Carries one annotation to where texts are resolved."""

    def __init__(self, said: Any) -> None:
        self.__annotations__ = {"it": said}


def _whole(hint: Any) -> Any:
    """The type, or Any where a part of it cannot be looked at."""
    return hint if all(map(_known, _parts(hint))) else Any


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    if get_origin(hint) not in (None, Literal, Callable):
        for each in get_args(hint):
            yield from _parts(each)


def _known(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType, Literal, Callable, Self, ..., Any, None):
        return True
    return isinstance(kind, type) and kind is not np.ndarray and not vars(kind).get("_is_protocol")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, or of one that is as good: a list for a tuple, numpy's numbers."""
    kind, of = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, UnionType):
        return any(fits(value, each) for each in of)
    if kind is Literal:
        return isinstance(value, str | int | None) and value in of
    if kind in (None, NoneType):
        return value is None
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and (kind is bool or not isinstance(value, NUMBERS[bool]))
    if kind is Callable:
        return callable(value)
    if kind is Self:
        return is_plugin(value)
    kinds = next((group for group in ALIKE if kind in group), (kind,))
    if not isinstance(value, kinds):
        return False
    if isinstance(value, Mapping):
        return not of or all(fits(key, of[0]) and fits(item, of[1]) for key, item in value.items())
    if kind is tuple and of and of[-1] is not ...:
        return len(value) == len(of) and all(map(fits, value, of))
    if of and isinstance(value, Collection):
        return all(fits(item, of[0]) for item in value)
    return all(fits(item, said_type(kind, name)) for name, item in _fields(value))
