"""Whether simfl can call a plugin as its protocol says: parameters and names of hooks."""

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from inspect import Parameter, get_annotations, signature
from types import FunctionType

ALIKE = 0.85
"""From here on one name is taken for a slip of the other (``difflib``)."""


def refuse_misfits(cls: type, protocol: type, what: str) -> None:
    """
    Args:
        cls: a plugin, or a class that derives from one of simfl.
        protocol: of its family; ``object`` = it is no plugin.
        what: it is, for messages.

    Raises:
        TypeError: a hook takes other parameters than simfl gives it, or a method is named almost as one that is not
            given.
    """
    ours = [each for each in cls.__mro__ if each.__module__.startswith("simfl.")] + [*protocol.__mro__]
    said = {name: item for each in reversed(cls.__mro__) if each not in ours for name, item in vars(each).items()}
    hooks = {name: item for each in reversed(ours) for name, item in vars(each).items() if name[0] != "_"}
    said_names = {name for each in protocol.__mro__ for name in get_annotations(each)}
    keys = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
    for name, item in said.items():
        if isinstance(item, FunctionType):
            if isinstance(hooks.get(name), FunctionType):
                _refuse_parameters(item, hooks[name], f"{what}: {name}")
            elif protocol is not object and name[0] != "_" and name not in {*hooks, *said_names, *keys}:
                left = [each for each, hook in hooks.items() if isinstance(hook, FunctionType) and each not in said]
                for near in get_close_matches(name, left, 1, ALIKE):
                    raise TypeError(f"{what}: '{name}' is no hook; did you mean '{near}'? else call it '_{name}'")


def _refuse_parameters(hook: FunctionType, wanted: FunctionType, what: str) -> None:
    named = [*signature(wanted).parameters.values()]
    some = [each for each in named if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    try:
        signature(hook).bind(*some, **{each.name: None for each in named if each.kind is Parameter.KEYWORD_ONLY})
    except TypeError as error:
        words = ", ".join(each.name for each in named[1:])
        raise TypeError(f"{what} is called with ({words}): {error}") from None
