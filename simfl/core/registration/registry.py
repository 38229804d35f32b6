"""Plugins: a frozen dataclass, registered under a name, is a scenario choice.

Registering a class gives it a YAML name, validation of its fields, an entry in ``simfl list`` and
``simfl show schema``, and the family's contract tests. There is no second description of its fields::

    @POLICIES("least_used")
    @dataclass(frozen=True)
    class LeastUsed:
        k: Annotated[int, Field(ge=1, description="clients in an aggregation")]

What a family's protocol gives a value or a body is optional: a class that lacks it gets that one when it is registered,
so that everybody may read it from every plugin. Packages add plugins through the entry points ``simfl.<family>``.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Annotated, Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticCustomError, core_schema, to_json

from simfl.core.json_data import JsonObject
from simfl.core.registration.family_index import FAMILIES, broken, family_registry, undone
from simfl.core.registration.packages import Broken, is_rim, load_package, packages
from simfl.core.registration.protocol import (
    Plugin,
    default_of,
    hold_to,
    is_plugin,
    origin,
    plain,
    refuse_fields,
    registered,
    required_fields,
    resolve_annotations,
    same_place,
    summary,
)
from simfl.core.registration.said_types import hold_to_types

Class = TypeVar("Class", bound=type)
P_co = TypeVar("P_co", bound=Plugin, covariant=True)


def modules_of(package: str, /, *names: str, **others: str) -> dict[str, str]:
    """The modules of simfl's own plugins by the plugins' names.

    Args:
        package: in which the modules lie.
        names: of modules with one plugin, named as they are.
        others: by each other module its plugins' names, with spaces between them.
    """
    plugins = {**dict(zip(names, names)), **others}
    return {name: f"{package}.{module}" for module, words in plugins.items() for name in words.split()}


class Registry(Mapping[str, type[P_co]]):
    """The plugins of one family, by name; also the pydantic annotation of a field that holds one.

    Use it as ``Annotated[Policy, POLICIES]``. Accepted are ``{name: x, field: ...}``, the bare name
    ``x`` for ``{name: x}`` and, where ``number`` is given, a number for that plugin.

    Args:
        family: singular noun shown in messages and ``simfl list``.
        number: (plugin name, field) that a bare number stands for.
        default: the plugin meant by a mapping without ``name``.
        protocol: what a plugin of the family offers; what it gives a value or a body is optional, and what it marks
            as abstract or only annotates is required.
        modules: the module that registers each of simfl's own plugins, imported when the plugin is asked for; those of
            simfl's packages that nobody imports (``simfl.papers``) are added from entry points.
        derived: what the protocol makes of the rest of a plugin, so that no plugin may say it itself.
        promises: what makes a certificate better where a plugin says it; not inherited by a class
            that changes anything of the one that says it (:func:`simfl.core.registration.protocol.hold_to`).
        shorthand: the mapping that some texts other than names are short for; None where a text is a name.

    Attributes:
        broken: packages whose plugin does not load, by the plugin's name.
    """

    def __init__(
        self,
        family: str,
        number: tuple[str, str] | None = None,
        default: str | None = None,
        protocol: type = Plugin,
        modules: Mapping[str, str] | None = None,
        shorthand: Callable[[str], JsonObject | None] | None = None,
        derived: tuple[str, ...] = (),
        promises: tuple[str, ...] = (),
    ) -> None:
        self.family = family
        self.modules = modules or {}
        self.protocol = protocol
        self.number = number
        self.shorthand, self.derived, self.promises = shorthand, derived, promises
        self.default = default
        self.broken: dict[str, Broken] = {}
        self._plugins: dict[str, type[P_co]] = {}
        self._loaded = False
        self._described = False
        FAMILIES[family] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return family_registry, (self.family,)  # there is one a process: what travels is its name

    # A mapping compares by content and cannot be hashed; what stands in a union of types must be.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __call__(self, name: str) -> Callable[[Class], Class]:
        if not isinstance(name, str):
            raise TypeError(f'a {self.family} is registered under a name: @REGISTRY("name")')

        def register(cls: Class) -> Class:
            refuse_fields(cls, self.protocol, f"{self.family} '{name}'")
            if not cls.__module__.startswith("simfl."):
                self._add_rims()
            if name in self.modules and cls.__module__ != self.modules[name]:
                import_module(self.modules[name])
            known = self._plugins.get(name)
            if known is not None and not same_place(known, cls):
                raise ValueError(f"{self.family} '{name}' is registered already, by {origin(known)}")
            resolve_annotations(cls)
            hold_to(self.protocol, cls, f"{self.family} '{name}'", self.derived, self.promises)
            if not cls.__module__.startswith("simfl."):
                hold_to_types(self.protocol, cls, self.family, name)
            marks = {"name": name, "__pydantic_config__": ConfigDict(extra="forbid", strict=True)}
            for attribute, value in marks.items():
                setattr(cls, attribute, value)
            self._plugins[name] = cast("type[P_co]", cls)  # it has just been held to the protocol
            registered[cls] = self.protocol
            return cls

        return register

    def _add_rims(self) -> list[EntryPoint]:
        """Adds the modules of simfl's own plugins that entry points name; those of other packages."""
        entries = [*packages(f"simfl.{self.family}")]
        self.modules = {**self.modules, **{entry.name: entry.module for entry in entries if is_rim(entry)}}
        return [entry for entry in entries if not is_rim(entry)]

    def load_packages(self) -> None:
        """Loads the family's plugins of installed packages, once; modules of simfl's own wait until they are named."""
        if not self._loaded:
            self._loaded = True
            for package in self._add_rims():
                with undone() as keep:
                    problem = load_package(package, lambda name: name in self._plugins)
                    if package.module in sys.modules:
                        keep()  # also where the entry point's name is wrong: others of the same module are right
                if problem is not None:
                    self.broken[package.name] = problem

    def __getitem__(self, name: str) -> type[P_co]:
        self.load_packages()
        if name in self.modules and name not in self._plugins:
            import_module(self.modules[name])
        return self._plugins[name]

    def _names(self) -> set[str]:
        self.load_packages()
        return {*self.modules, *self._plugins}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def imported_plugins(self) -> Iterator[tuple[str, type[P_co]]]:
        """The plugins whose modules have been imported."""
        yield from sorted(self._plugins.items())

    def forget_all_but(self, plugins: Mapping[str, type]) -> None:
        """Unregisters every other plugin but simfl's own: a module of simfl's is imported once, and stays."""
        shipped = {name: cls for name, cls in self._plugins.items() if cls.__module__.split(".")[0] == "simfl"}
        self._plugins = {**plugins, **shipped}

    def of(self, value: Any) -> Any:
        """The plugin that a YAML value (a name, a mapping, perhaps a number) stands for.

        Raises:
            pydantic.ValidationError: the value names no plugin or does not fit its fields.
        """
        return validate(Annotated[Any, self], value)

    def normalise(self, value: Any) -> Any:
        """The mapping that a bare name, a bare number or a mapping without name is short for; else the value itself."""
        if isinstance(value, str):
            return (self.shorthand and self.shorthand(value)) or {"name": value}
        if self.number and isinstance(value, (int, float)) and not isinstance(value, bool):
            name, field = self.number
            return {"name": name, field: value}
        if self.default and isinstance(value, dict) and "name" not in value:
            return {"name": self.default, **value}
        return value

    def chosen(self, value: Any) -> type[P_co] | None:
        """The class that a YAML value chooses, None if it chooses none."""
        value = self.normalise(value)
        name = value.get("name") if isinstance(value, dict) else None
        if isinstance(name, str) and name not in self:
            broken()  # a package may register it beside its plugin of another family
        return self.get(name) if isinstance(name, str) else None

    # -- pydantic: validation ------------------------------------------------------------------

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validate)

    def _validate(self, value: Any) -> Any:
        value = self._prepare(value)
        cls = self[value["name"]]
        return _adapter(Annotated[cls, _Named]).validate_json(to_json(value), strict=True)

    def _prepare(self, value: Any) -> Any:
        if is_plugin(value) and self._plugins.get(value.name) is type(value):
            return plain(value)
        value = self.normalise(value)
        context = {"family": self.family, "known": ", ".join(self) or "none is installed"}
        if not isinstance(value, dict):
            also = " or a number" if self.number else ""
            raise PydanticCustomError(
                "plugin", "a name{also} or a mapping with 'name' is needed", context | {"also": also}
            )
        if value.get("name") is None:
            raise PydanticCustomError("plugin_name", "'name' is missing (one of {known})", context)
        if self.chosen(value) is None:
            if broken := self.broken.get(str(value["name"])):
                raise PydanticCustomError("plugin_broken", "{why}", {"why": str(broken)})
            raise PydanticCustomError("plugin_unknown", "unknown {family} (one of {known})", context)
        return value

    # -- pydantic: JSON Schema -------------------------------------------------------------------

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> JsonObject:
        options: list[JsonObject] = [
            {"const": name, "title": f"{self.family} {name}", "description": summary(self[name])}
            for name in self
            if not required_fields(self[name])
        ]
        if self.number:
            options.append({"type": "number", "title": f"{self.number[0]}: {self.number[1]}"})
        if self.shorthand is not None:
            options.append({"type": "string", "pattern": "[:#]", "title": f"{self.family}: module:attribute"})
        if self._described:  # a plugin within one of its own family only refers to it
            return {"x-family": self.family}
        for name in self:
            self._described = True
            try:
                body = dict(handler.resolve_ref_schema(handler(_adapter(self[name]).core_schema)))
            finally:
                self._described = False
            body["description"] = summary(self[name])
            tag = {"const": name, "title": "name", "description": summary(self[name])}
            body["properties"] = {"name": tag, **_with_defaults(self[name], body.get("properties", {}))}
            body["required"] = [*([] if name == self.default else ["name"]), *body.get("required", [])]
            body["title"] = f"{self.family} {name}"
            options.append(body)
        return {"x-family": self.family, "anyOf": options or [{"not": {}}]}


def _with_defaults(cls: type, properties: JsonObject) -> JsonObject:
    """The properties with the fields' defaults as YAML data: pydantic would leave out the plugins' names."""
    known = {f.name: {"default": plain(default_of(f))} for f in fields(cls) if default_of(f) is not MISSING}
    return {key: {**body, **known.get(key, {})} for key, body in properties.items()}


def validate(annotation: Any, value: Any) -> Any:
    """YAML data as an instance of a type that may hold plugins.

    Raises:
        pydantic.ValidationError: it does not fit.
    """
    return _adapter(annotation).validate_json(to_json(value), strict=True)


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


class OrNull:
    """Marks a place of a plugin that may be null; mypy takes it for any plugin, since it is one once it is resolved."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.nullable_schema(handler(source))


class _Named:
    """Marks a plugin that is read from a mapping with its ``name``, which errors have in their ``loc``."""

    @staticmethod
    def __get_pydantic_core_schema__(cls: type[Plugin], handler: Any) -> core_schema.CoreSchema:
        choice = core_schema.no_info_before_validator_function(
            lambda value: {key: _frozen(item) for key, item in value.items() if key != "name"}, handler(cls)
        )
        return core_schema.tagged_union_schema({cls.name: choice}, discriminator="name")


def _frozen(value: Any) -> Any:
    """Sequences of a frozen plugin are tuples."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value
