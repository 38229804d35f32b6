"""What the keys of a scenario may be, read off the dataclasses: their fields, types, defaults and descriptions."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from simfl.core.registration.protocol import Plugin, default_of, plain, required_fields
from simfl.core.registration.registry import Registry
from simfl.scenario.yaml.places import KeyPath

DEEPEST = 3

_NAMES = {int: "integer", float: "number", str: "text", bool: "true or false", NoneType: "null", Any: "anything"}

_BOUNDS = {Ge: (">=", "ge"), Gt: (">", "gt"), Le: ("<=", "le"), Lt: ("<", "lt")}


@cache
def _key_types(cls: type) -> dict[str, Any]:
    annotations = get_type_hints(cls, include_extras=True)
    return {f.name: annotations[f.name] for f in fields(cls) if f.init and f.metadata.get("yaml", True)}


def options(annotation: Any) -> Iterator[Any]:
    """The alternatives of a type, flat: registries, classes and generics; ``Annotated`` and unions are opened."""
    if get_origin(annotation) is Annotated:
        registries = [part for part in annotation.__metadata__ if isinstance(part, Registry)]
        if registries:
            yield from registries
        else:
            yield from options(annotation.__origin__)
    elif get_origin(annotation) in (Union, UnionType):
        for part in get_args(annotation):
            yield from options(part)
    else:
        yield annotation


def registry_of(annotation: object) -> Registry[Plugin] | None:
    """The family of plugins that may stand at a place of this type."""
    return next((option for option in options(annotation) if isinstance(option, Registry)), None)


def owner(annotation: object, value: object) -> type | None:
    """The dataclass whose fields are the keys of ``value``, a piece of YAML data at a place of this type."""
    known = list(options(annotation))
    plugins = (option.chosen(value) for option in known if isinstance(option, Registry))
    classes = (
        option
        for option in known
        if isinstance(option, type) and is_dataclass(option) and isinstance(value, (dict, NoneType))
    )
    return next((cls for cls in (*plugins, *classes) if cls is not None), None)


def keys_of(annotation: object, value: object) -> dict[str, Any]:
    """The keys that fit into ``value`` at a place of this type, with their types; empty if it takes none."""
    cls = owner(annotation, value)
    if cls is None:
        return {}
    chooser: dict[str, Any] = {} if registry_of(annotation) is None else {"name": str}
    return chooser | _key_types(cls)


def homes(annotation: object, name: str, path: KeyPath = ()) -> Iterator[tuple[KeyPath, type[Plugin]]]:
    """The places below one of this type at which a plugin of some name may stand, and the plugin."""
    for option in options(annotation):
        if isinstance(option, Registry):
            if name in option:
                yield path, option[name]
            classes: list[type] = list(option.values())
        else:
            classes = [option] if isinstance(option, type) and is_dataclass(option) else []
        if len(path) < DEEPEST:
            for cls in classes:
                for key, hint in _key_types(cls).items():
                    yield from homes(hint, name, (*path, key))


def key_homes(annotation: object, key: str, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """The places below one of this type at which a plugin has some key: its path, and the plugin's name."""
    for option in options(annotation):
        if isinstance(option, Registry):
            # plugins that need the key before those that may have it, and presets after what they preset
            ranks = {name: (key not in required_fields(cls), len(cls.__mro__)) for name, cls in option.items()}
            classes: dict[str, type] = {name: option[name] for name in sorted(ranks, key=lambda name: ranks[name])}
        else:
            classes = {"": option} if isinstance(option, type) and is_dataclass(option) else {}
        for name, cls in classes.items():
            keys = _key_types(cls)
            if name and key in keys:
                yield path, name
            if not name or len(path) < 1:  # into sections, not into each plugin of each plugin
                for inner, hint in keys.items():
                    yield from key_homes(hint, key, (*path, inner))


def _inside(annotation: object, value: object, key: object) -> Any:
    if isinstance(key, str) and (known := keys_of(annotation, value).get(key)) is not None:
        return known
    for option in options(annotation):
        arguments = get_args(option)
        if get_origin(option) is dict and isinstance(key, str):
            return arguments[1]
        if get_origin(option) in (tuple, list) and isinstance(key, int) and arguments:
            homogeneous = get_origin(option) is list or arguments[-1] is Ellipsis
            return arguments[0 if homogeneous else min(key, len(arguments) - 1)]
    return Any


def annotation_at(annotation: object, data: object, path: KeyPath) -> Any:
    """The type of the place at ``path``; ``Any`` where the data leaves what is known."""
    for key in path:
        annotation = _inside(annotation, data, key)
        if isinstance(data, list):
            data = data[key] if isinstance(key, int) and 0 <= key < len(data) else None
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return annotation


# -- for readers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """A field in words.

    Attributes:
        type: e.g. ``integer >= 1``.
        default: YAML data; ``dataclasses.MISSING`` if the field is required.
    """

    name: str
    type: str
    default: Any
    description: str

    @property
    def required(self) -> bool:
        return self.default is MISSING


def describe(cls: type) -> list[Description]:
    """The YAML keys of a dataclass, in order."""
    defaults = {f.name: default_of(f) for f in fields(cls)}
    return [
        Description(
            name, _words(hint), defaults[name] if defaults[name] is MISSING else plain(defaults[name]), _text(hint)
        )
        for name, hint in _key_types(cls).items()
    ]


def _text(annotation: Any) -> str:
    if get_origin(annotation) is not Annotated:
        return ""
    infos = [part for part in annotation.__metadata__ if isinstance(part, FieldInfo)]
    return next((info.description for info in reversed(infos) if info.description), _text(annotation.__origin__))


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        for part in annotation.__metadata__:
            if isinstance(part, Registry):
                return part.family + (" or number" if part.number else "")
        return _with_bounds(_words(annotation.__origin__), annotation.__metadata__)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(part) for part in arguments))
    if origin is Literal:
        return " | ".join(str(part) for part in arguments)
    if origin in (tuple, list):
        if origin is list or arguments[-1:] == (Ellipsis,):
            return f"list of {_words(arguments[0])}"
        return "[" + ", ".join(_words(part) for part in arguments) + "]"
    if origin is dict:
        return f"mapping to {_words(arguments[1])}"
    if isinstance(annotation, type) and is_dataclass(annotation):
        return "{" + ", ".join(_key_types(annotation)) + "}"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _with_bounds(words: str, metadata: tuple[object, ...]) -> str:
    bounds = [
        f"{sign} {getattr(constraint, attribute):g}"
        for info in metadata
        for constraint in (info.metadata if isinstance(info, FieldInfo) else [info])
        for kind, (sign, attribute) in _BOUNDS.items()
        if isinstance(constraint, kind)
    ]
    if not bounds:
        return words
    words, _, rest = words.partition(" or ")  # "integer or null"
    return f"{words} {', '.join(bounds)}" + (f" or {rest}" if rest else "")
