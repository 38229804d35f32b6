"""Whether what a plugin of somebody else's says and gives is of the type that its family's protocol names."""

import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial, partialmethod, wraps
from inspect import get_annotations, getattr_static, isdatadescriptor, isfunction, ismethoddescriptor
from itertools import chain
from types import FunctionType, NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from simfl.core.errors import PluginError
from simfl.core.registration.protocol import Plugin, is_plugin, registered
from simfl.core.validation import describe_type

NUMBERS = {bool: (bool, np.bool_), int: (int, np.integer), float: (float, int, np.floating, np.integer), str: (str,)}
Test = Callable[[Any], bool]

LOOKS = "_looks"
"""What functions have that look at what another one gives: that one."""

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
        TypeError: a constant is of another type, or a method.
    """
    package = cls.__module__.partition(".")[0]
    near = (each for each in cls.__mro__[1:] if each.__module__.partition(".")[0] == package)
    bases = [each for each in near if each not in registered]
    keys = {each.name for each in fields(cls)}
    for owner, member, item in [(each, *pair) for each in (cls, *bases) for pair in vars(each).items()]:
        known = [each for each in protocol.__mro__ if member in vars(each) or member in get_annotations(each)]
        same = any(vars(each).get(member) is item for each in known)
        hint = said_type(protocol, member)
        method = any(isfunction(vars(each).get(member)) for each in known)
        gives_hook = method and isinstance(item, (property, cached_property))
        if member.startswith("_") or not known or same or member in keys or (hint is Any and not gives_hook):
            continue
        look = partial(_looking, name=member, family=family, protocol=protocol)
        again: Any = None
        mine = getattr_static(cls, member) is item
        if mine and not method and isinstance(item, (FunctionType, staticmethod, classmethod, partialmethod)):
            wanted = f"{in_words(hint)}, not a method; write @property before it"
            raise TypeError(f"{family} '{name}': {member} must be {wanted}")
        if isfunction(item):
            again = look(as_written(item))
        elif isinstance(item, property) and item.fget is not None:
            again = item.getter(look(as_written(item.fget), gives_hook=gives_hook))
        elif type(item) is cached_property:
            again = cached_property(look(as_written(item.func), gives_hook=gives_hook))
            again.__set_name__(owner, member)
        elif isinstance(item, classmethod) and callable(item.__func__):
            again = classmethod(look(as_written(item.__func__)))
        elif isinstance(item, staticmethod):
            owner, again = cls, staticmethod(look(as_written(item.__func__), plugin_name=name))
        elif isinstance(item, partialmethod) and isfunction(item.func):
            again = partialmethod(look(as_written(item.func)), *item.args, **item.keywords)
        elif mine and not (ismethoddescriptor(item) or isdatadescriptor(item)):
            listed = member in ("columns", "finals") and type(item) is tuple  # looked at with the scenario
            if not (method or listed or fits(item, hint)):
                raise TypeError(f"{family} '{name}': {member} must be {in_words(hint)}, not {item!r}")
        if again is not None:
            setattr(owner, member, again)


def _looking(
    function: Callable[..., Any],
    name: str,
    family: str,
    protocol: type,
    plugin_name: str | None = None,
    gives_hook: bool = False,
) -> Callable[..., Any]:
    """The function, refusing what it gives of another type.

    Args:
        function: of a plugin, or of no object.
        name: of the member.
        family: for messages.
        protocol: of the family.
        plugin_name: for messages; None = that of the object that the function is of.
        gives_hook: what it gives is the hook, a function in turn.
    """
    listed = get_origin(said_type(protocol, name)) is list

    @wraps(function)
    def gives(*args: Any, **keywords: Any) -> Any:
        value = function(*args, **keywords)
        if gives_hook and callable(value):
            return _looking(value, name, family, protocol, args[0].name)
        if listed and isinstance(value, Iterator):
            value = [*value]
        if gives_hook or not _test_of(protocol, name)(value):
            wanted = "a function" if gives_hook else in_words(said_type(protocol, name))
            plugin = args[0].name if plugin_name is None else plugin_name
            raise PluginError(f"{family} '{plugin}'", f"{name} must give {wanted}, not {seen_as(value)}")
        return value

    vars(gives)[LOOKS] = function
    return gives


def as_written(function: Any) -> Any:
    """A function as its class defines it, without the look at what it gives."""
    looked_at = vars(function).get(LOOKS) if isfunction(function) else None
    return function if looked_at is None or vars(function)["__wrapped__"] is not looked_at else looked_at


def seen_as(value: Any) -> str:
    """A value in words: its type, and those of what is in it; of a record the first value of a wrong one."""
    kind: Any = type(value)
    for name in _names(kind):
        if not fits(item := getattr(value, name), said_type(kind, name)):
            return f"{kind.__name__} with {name} = {describe_type(item)}"
    inside = chain(value, value.values()) if isinstance(value, Mapping) else value
    of = ", ".join(dict.fromkeys(map(seen_as, inside))) if isinstance(value, (*chain(*ALIKE),)) else ""
    return f"{describe_type(value)}{of and f'[{of}]'}"


def _names(kind: Any) -> tuple[str, ...]:
    """The names of a record's values: of a named tuple or a dataclass; of other types none."""
    if issubclass(kind, tuple):
        return next((vars(cls)["_fields"] for cls in kind.__mro__ if "_fields" in vars(cls)), ())
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()


def in_words(hint: Any) -> str:
    """A type as it stands in source code."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(in_words, get_args(hint)))
    if hint in (None, NoneType, Self):
        return "a plugin" if hint is Self else "None"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Callable, Generator):
        return "a function" if get_origin(hint) is Callable else "a generator, of a function with yield"
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
    return (
        isinstance(kind, type) and kind is not np.ndarray and (_is_family(kind) or not vars(kind).get("_is_protocol"))
    )


def _is_family(kind: Any) -> bool:
    """Whether a type stands for any plugin of a family."""
    return bool(vars(kind).get("_is_protocol")) and Plugin in kind.__mro__


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, or of one that is as good: a list for a tuple, numpy's numbers."""
    return _test(hint)(value)


@cache
def _test_of(protocol: type, name: str) -> Test:
    """Whether a value is what the protocol says that a member gives."""
    return _test(said_type(protocol, name))


@cache
def _test(hint: Any) -> Test:
    """Whether a value is of a type."""
    kind, of = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return lambda value: True
    if kind in (Union, UnionType):
        tests = [*map(_test, of)]
        return lambda value: any(test(value) for test in tests)
    if kind is Literal:
        return lambda value: isinstance(value, str | int | None) and value in of
    if kind in (None, NoneType):
        return lambda value: value is None
    if kind in NUMBERS:
        kinds, never = NUMBERS[kind], () if kind is bool else NUMBERS[bool]
        return lambda value: isinstance(value, kinds) and not isinstance(value, never)
    if kind is Callable:
        return callable
    if kind is Self:
        return is_plugin
    if _is_family(kind):
        return lambda value: any(kind in (cls, *registered.get(cls, object).__mro__) for cls in type(value).__mro__)
    return _test_inside(kind, of)


def _test_inside(kind: Any, of: tuple[Any, ...]) -> Test:
    """Whether a value is of a class, and what is in it of what is said of that."""
    kinds = next((group for group in ALIKE if kind in group), (kind,))
    tests = [_test(Any if each is ... else each) for each in of]
    named = [(name, _test(hint)) for name in _names(kind) if (hint := said_type(kind, name)) is not Any]

    def test(value: Any) -> bool:
        if not isinstance(value, kinds):
            return False
        if not of:
            return all(test(getattr(value, name)) for name, test in named)
        if isinstance(value, Mapping):
            return all(tests[0](key) and tests[1](item) for key, item in value.items())
        if kind is tuple and of[-1] is not ...:
            return len(value) == len(of) and all(test(item) for test, item in zip(tests, value))
        return not isinstance(value, Collection) or all(map(tests[0], value))

    return test
