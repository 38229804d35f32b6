"""What only the whole scenario shows: automatic fields are filled in, impossible combinations found."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from traceback import walk_tb
from typing import Any

from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import is_plugin
from simfl.scenario.yaml.places import KeyPath, dotted_key

LEAVES = {str, int, float, bool, type(None)}


def walk(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every dataclass in ``value`` with its path, the inner ones before those that hold them."""
    for key, item in _parts(value):
        if type(item) not in LEAVES:
            yield from walk(item, (*path, key))
    if _keys_of(type(value)) is not None:  # type: ignore[arg-type]  # classes have a hash
        yield path, value


def replace_plugins(value: object, replacement: Callable[[Any], Any]) -> Any:
    """``value`` with every dataclass in it replaced by ``change(it)``, the inner ones first."""
    if isinstance(value, (tuple, list)):
        return type(value)(replace_plugins(item, replacement) for item in value)
    if isinstance(value, dict):
        return {key: replace_plugins(item, replacement) for key, item in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {key: replace_plugins(item, replacement) for key, item in _parts(value)}
    return replacement(replace(value, **changed))


def key_of(scenario: object, error: ScenarioError) -> KeyPath:
    """The full path of what an error is about: its key is relative to the innermost plugin that raised it, if any,
    unless only the scenario has such a key.
    """
    keys = _keys(error.key)
    raiser = None
    for frame, _ in walk_tb(error.__traceback__):
        if is_plugin(candidate := frame.f_locals.get("self")):
            raiser = candidate
    if raiser is None:
        return keys
    whole, inner = ({f.name for f in fields(each)} if is_dataclass(each) else set() for each in (scenario, raiser))
    if keys and keys[0] in whole - inner:
        return keys
    return (*next((path for path, plugin in walk(scenario) if plugin is raiser), ()), *keys)


def resolve(scenario: Any) -> tuple[Any, list[tuple[KeyPath, str]]]:
    """The scenario after every plugin's ``resolve(scenario)``, and the problems that this met.

    Each plugin sees what those before it (the inner ones, then in the order of the keys) have become.
    """
    problems: list[tuple[KeyPath, str]] = []
    for path, _ in list(walk(scenario)):
        plugin = _at(scenario, path)
        if is_plugin(plugin):
            try:
                scenario = _put(scenario, path, plugin.resolve(scenario))
            except ScenarioError as error:
                problems.append((key_of(scenario, error), error.message))
    return scenario, problems


def check_all(scenario: Any) -> list[tuple[KeyPath, str]]:
    """The problems that the plugins' ``check(scenario)`` find, with full paths."""
    problems: list[tuple[KeyPath, str]] = []
    for path, plugin in walk(scenario):
        if is_plugin(plugin):
            for key, message in plugin.check(scenario):
                problems.append(((*path, *_keys(key)), message))
    return problems


def cautions(scenario: Any) -> list[str]:
    """What the plugins' ``cautions(scenario)`` say, each behind its plugin's path."""
    warnings = ((path, plugin.cautions(scenario)) for path, plugin in walk(scenario) if is_plugin(plugin))
    return [f"{dotted_key(path)}: {text}" for path, said in warnings for text in said]


def _keys(dotted_key: str) -> KeyPath:
    return tuple(int(key) if key.isdecimal() else key for key in dotted_key.split(".")) if dotted_key else ()


def _parts(value: object) -> Iterable[tuple[Any, Any]]:
    if (names := _keys_of(type(value))) is not None:  # type: ignore[arg-type]  # classes have a hash
        return [(name, getattr(value, name)) for name in names]
    if isinstance(value, (tuple, list)):
        return enumerate(value)
    return value.items() if isinstance(value, dict) else ()


@cache
def _keys_of(cls: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that a file may set; None for other types."""
    return tuple(f.name for f in fields(cls) if f.metadata.get("yaml", True)) if is_dataclass(cls) else None


def _at(value: Any, path: KeyPath) -> Any:
    for key in path:
        value = getattr(value, key) if is_dataclass(value) else value[key]
    return value


def _put(value: Any, path: KeyPath, item: Any) -> Any:
    if not path:
        return item
    key = path[0]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{key: _put(getattr(value, key), path[1:], item)})
    if isinstance(value, dict):
        return {**value, key: _put(value[key], path[1:], item)}
    return type(value)([*value[:key], _put(value[key], path[1:], item), *value[key + 1 :]])
