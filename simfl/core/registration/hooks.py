"""Whether simfl can call a plugin as its protocol says: parameters, types of constants, names of hooks."""

import re
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from inspect import Parameter, signature
from types import FunctionType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

ALIKE = 0.85
"""From here on one name is taken for a slip of the other (``difflib``)."""


def refuse_misfits(cls: type, protocol: type, what: str) -> None:
    """
    Args:
        cls: a plugin, or a class that derives from one of simfl.
        protocol: of its family; ``object`` = it is no plugin.
        what: it is, for messages.

    Raises:
        TypeError: a hook takes other parameters than simfl gives it, a constant is of another type, or a method is
            named almost as a hook that is not given.
    """
    ours = [each for each in cls.__mro__ if each.__module__.startswith("simfl.")] + [*protocol.__mro__]
    said = {name: item for each in reversed(cls.__mro__) if each not in ours for name, item in vars(each).items()}
    hooks = {name: item for each in reversed(ours) for name, item in vars(each).items() if name[0] != "_"}
    types = {name: hint for each in reversed(protocol.__mro__) for name, hint in _annotations(each).items()}
    keys = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
    for name, item in said.items():
        if isinstance(item, FunctionType):
            if isinstance(hooks.get(name), FunctionType):
                _refuse_parameters(item, hooks[name], f"{what}: {name}")
            elif protocol is not object and name[0] != "_" and name not in {*hooks, *types, *keys}:
                left = [each for each, hook in hooks.items() if isinstance(hook, FunctionType) and each not in said]
                for near in get_close_matches(name, left, 1, ALIKE):
                    raise TypeError(f"{what}: '{name}' is no hook; did you mean '{near}'? else call it '_{name}'")
        elif name in types and name not in keys and not _fits(item, types[name]):
            raise TypeError(f"{what}: {name} must be {_words(types[name])}, not {item!r}")


def _annotations(cls: type) -> dict[str, Any]:
    return vars(cls).get("__annotations__", {})


def _refuse_parameters(hook: FunctionType, wanted: FunctionType, what: str) -> None:
    named = [*signature(wanted).parameters.values()]
    some = [each for each in named if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    try:
        signature(hook).bind(*some, **{each.name: None for each in named if each.kind is Parameter.KEYWORD_ONLY})
    except TypeError as error:
        words = ", ".join(each.name for each in named[1:])
        raise TypeError(f"{what} is called with ({words}): {error}") from None


def _words(hint: Any) -> str:
    text = str(get_args(hint)[0] if get_origin(hint) in (ClassVar, Annotated) else hint)
    return re.sub(r"<class '(.*)'>", r"\1", re.sub(r"([A-Za-z_]\w*\.)+(?=\w)", "", text))


def _fits(value: object, hint: Any) -> bool:
    """Whether a constant is of the type that the protocol says; what is computed is looked at where it is used."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (ClassVar, Annotated):
        return _fits(value, parts[0])
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Literal:
        return value in parts
    if kind in (frozenset, tuple) and isinstance(value, kind):
        return all(_fits(each, parts[0]) for each in value) if kind is frozenset or parts[1:] == (...,) else True
    wanted = kind or hint
    computed = isinstance(value, property) or type(value).__module__ == "functools"
    return (
        computed
        or wanted is Any
        or not isinstance(wanted, type)
        or isinstance(value, (int, float) if wanted is float else wanted)
    )
