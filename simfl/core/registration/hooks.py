"""Whether simfl can call a plugin as its protocol says: parameters and names of hooks."""

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from inspect import Parameter, get_annotations, signature
from types import FunctionType
from typing import Any

ALIKE = 0.85
"""From here on one name is taken for a slip of the other (``difflib``)."""


def refuse_misfits(cls: type, protocol: type, what: str) -> None:
    """
    Args:
        cls: a plugin, or a class that derives from one of simfl.
        protocol: of its family; ``object`` = it is no plugin.
        what: it is, for messages.

    Raises:
        TypeError: a hook takes other parameters than simfl gives it, or a method of its module is named almost as one
            that is not given, and takes the same.
    """
    ours = [each for each in cls.__mro__ if each.__module__.startswith("simfl.")] + [*protocol.__mro__]
    said = {name: item for each in reversed(cls.__mro__) if each not in ours for name, item in vars(each).items()}
    hooks = {name: item for each in reversed(ours) for name, item in vars(each).items() if name[0] != "_"}
    said_names = {name for each in protocol.__mro__ for name in get_annotations(each)}
    keys = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
    in_module = {name for each in cls.__mro__ if each.__module__ == cls.__module__ for name in vars(each)}
    for name, item in said.items():
        if isinstance(item, (FunctionType, staticmethod, classmethod)):
            if isinstance(hooks.get(name), FunctionType):
                if error := _misfit(item, hooks[name]):
                    words = ", ".join([*signature(hooks[name]).parameters][1:])
                    raise TypeError(f"{what}: {name} is called with ({words}): {error}")
            elif protocol is not object and name[0] != "_" and name in in_module - {*hooks, *said_names, *keys}:
                left = [each for each, hook in hooks.items() if isinstance(hook, FunctionType) and each not in said]
                for near in get_close_matches(name, left, 1, ALIKE):
                    if not _misfit(item, hooks[near]):
                        raise TypeError(f"{what}: '{name}' is no hook; did you mean '{near}'? else call it '_{name}'")


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
    return ""
