"""Plugins: a frozen dataclass, registered under a name, is a scenario choice.

Registering a class gives it a YAML name, validation of its fields, an entry in ``simfl list`` and
``simfl schema``, and the family's contract tests. There is no second description of its fields::

    @POLICIES("least_used")
    @dataclass(frozen=True)
    class LeastUsed:
        k: Annotated[int, Field(ge=1, description="clients in an aggregation")]

What a family's protocol gives a value or a body is optional: a class that lacks it gets that one when it is registered,
so that everybody may read it from every plugin. Packages add plugins through the entry point group
``simfl.<family>`` (:mod:`simfl.packages`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from inspect import getsourcefile
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticCustomError, core_schema, to_json

from simfl.packages import Broken, load_package, packages
from simfl.plugin import Plugin, annotated, completed, is_plugin, registered

__all__ = [
    "FAMILIES",
    "Registry",
    "broken",
    "default_of",
    "plain",
    "required",
    "summary",
    "undone",
    "validate",
]

FAMILIES: dict[str, "Registry"] = {}
"""Every registry by family name, in order of definition."""

Class = TypeVar("Class", bound=type)


class Registry(Mapping[str, type]):
    """The plugins of one family, by name; also the pydantic annotation of a field that holds one.

    Use it as ``Annotated[Policy, POLICIES]``. Accepted are ``{name: x, field: ...}``, the bare name
    ``x`` for ``{name: x}`` and, where ``number`` is given, a number for that plugin.

    Args:
        family: singular noun shown in messages and ``simfl list``.
        number: (plugin name, field) that a bare number stands for.
        default: the plugin meant by a mapping without ``name``.
        protocol: what a plugin of the family offers; what it gives a value or a body is optional, and what it marks
            as abstract or only annotates is required.

    Attributes:
        broken: packages whose plugin does not load, by the plugin's name.
    """

    def __init__(
        self, family: str, number: tuple[str, str] | None = None, default: str | None = None, protocol: type = Plugin
    ) -> None:
        self.family = family
        self.protocol = protocol
        self.number = number
        self.default = default
        self.broken: dict[str, Broken] = {}
        self._plugins: dict[str, type] = {}
        self._loaded = False
        FAMILIES[family] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return FAMILIES.__getitem__, (self.family,)  # there is one a process: what travels is its name

    # A mapping compares by content and cannot be hashed; what stands in a union of types must be.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __call__(self, name: str) -> Callable[[Class], Class]:
        def register(cls: Class) -> Class:
            if not is_dataclass(cls):
                raise TypeError(f"{self.family} '{name}' must be a dataclass")
            known = self._plugins.get(name)
            if known is not None and not _same_place(known, cls):
                raise ValueError(f"{self.family} '{name}' is registered already, by {_origin(known)}")
            if any(f.name == "name" for f in fields(cls)):
                raise TypeError(f"{self.family} '{name}' has a field 'name': that key chooses the plugin")
            annotated(cls)
            for wanted in (self.protocol, Plugin):
                completed(cls, wanted, f"{self.family} '{name}'")
            cls.name = name
            cls.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
            self._plugins[name] = cls
            registered.add(cls)
            _adapter.cache_clear()
            return cls

        return register

    def _load(self) -> dict[str, type]:
        if not self._loaded:
            self._loaded = True
            for package in packages(f"simfl.{self.family}"):
                with undone() as keep:
                    problem = load_package(package, lambda name: name in self._plugins)
                    if problem is None:
                        keep()
                    else:
                        self.broken[package.name] = problem
        return self._plugins

    def __getitem__(self, name: str) -> type:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._load()))

    def __len__(self) -> int:
        return len(self._load())

    def of(self, value: Any) -> Any:
        """The plugin that a YAML value (a name, a mapping, perhaps a number) stands for.

        Raises:
            pydantic.ValidationError: the value names no plugin or does not fit its fields.
        """
        return validate(Annotated[Any, self], value)

    def normalise(self, value: Any) -> Any:
        """The mapping that a bare name, a bare number or a mapping without name is short for; else the value itself."""
        if isinstance(value, str):
            return {"name": value}
        if self.number and isinstance(value, (int, float)) and not isinstance(value, bool):
            name, field = self.number
            return {"name": name, field: value}
        if self.default and isinstance(value, dict) and "name" not in value:
            return {"name": self.default, **value}
        return value

    def chosen(self, value: Any) -> type | None:
        """The class that a YAML value chooses, None if it chooses none."""
        value = self.normalise(value)
        name = value.get("name") if isinstance(value, dict) else None
        return self._load().get(name) if isinstance(name, str) else None

    # -- pydantic: validation ------------------------------------------------------------------

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        choices: dict[str, core_schema.CoreSchema] = {
            name: core_schema.no_info_before_validator_function(_without_name, handler.generate_schema(self[name]))
            for name in self
        }
        if not choices:
            return core_schema.no_info_plain_validator_function(self._prepare)  # which refuses whatever it is given
        union = core_schema.tagged_union_schema(choices, discriminator="name")
        return core_schema.no_info_before_validator_function(self._prepare, union)

    def _prepare(self, value: Any) -> Any:
        if is_plugin(value) and self._plugins.get(value.name) is type(value):
            return {"name": value.name, **{f.name: getattr(value, f.name) for f in fields(value)}}
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

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        options: list[dict[str, Any]] = [
            {"const": name, "title": f"{self.family} {name}", "description": summary(self[name])}
            for name in self
            if not required(self[name])
        ]
        if self.number:
            options.append({"type": "number", "title": f"{self.number[0]}: {self.number[1]}"})
        for name, choice in schema["schema"]["choices"].items() if options or len(self) else ():
            try:
                body = dict(handler.resolve_ref_schema(handler(choice["schema"])))
            except LookupError:  # it is being described: this is a plugin within one of its own family
                return {"x-family": self.family}
            body["description"] = summary(self[name])
            tag = {"const": name, "title": "name", "description": summary(self[name])}
            body["properties"] = {"name": tag, **_with_defaults(self[name], body.get("properties", {}))}
            body["required"] = [*([] if name == self.default else ["name"]), *body.get("required", [])]
            body["title"] = f"{self.family} {name}"
            options.append(body)
        return {"x-family": self.family, "anyOf": options or [{"not": {}}]}


def broken() -> list[Broken]:
    """The plugins of installed packages that do not load, of every family."""
    for registry in list(FAMILIES.values()):
        registry._load()
    return [problem for registry in FAMILIES.values() for problem in registry.broken.values()]


@contextmanager
def undone() -> Iterator[Callable[[], None]]:
    """What is registered inside is forgotten again, unless the function that it yields has been called."""
    before = {family: dict(registry._plugins) for family, registry in FAMILIES.items()}
    kept: list[bool] = []
    try:
        yield lambda: kept.append(True)
    finally:
        if not kept:
            for family, plugins in before.items():
                FAMILIES[family]._plugins = plugins
            _adapter.cache_clear()


def _same_place(known: type, cls: type) -> bool:
    """Whether a class is a known one defined anew, as when a notebook's cell is run again."""
    return known.__module__ == "__main__" == cls.__module__ and known.__qualname__ == cls.__qualname__


def _origin(cls: type) -> str:
    try:
        return getsourcefile(cls) or cls.__module__
    except (TypeError, OSError):
        return cls.__module__


def _with_defaults(cls: type, properties: dict[str, Any]) -> dict[str, Any]:
    """The properties with the fields' defaults as YAML data: pydantic would leave out the plugins' names."""
    known = {f.name: {"default": plain(default_of(f))} for f in fields(cls) if default_of(f) is not MISSING}
    return {key: {**body, **known.get(key, {})} for key, body in properties.items()}


def validate(annotation: Any, value: Any) -> Any:
    """YAML data as an instance of a type that may hold plugins.

    Raises:
        pydantic.ValidationError: it does not fit.
    """
    for family in list(FAMILIES.values()):
        family._load()
    return _adapter(annotation).validate_json(to_json(value), strict=True)


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    """Made anew when plugins have been registered since."""
    return TypeAdapter(annotation)


def default_of(field: "Field[Any]") -> Any:
    """The default of a dataclass field, ``dataclasses.MISSING`` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def required(cls: type) -> list[str]:
    """The fields of a dataclass that have no default."""
    return [f.name for f in fields(cls) if f.init and default_of(f) is MISSING]


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def _without_name(value: dict[str, Any]) -> dict[str, Any]:
    return {key: _frozen(item) for key, item in value.items() if key != "name"}


def _frozen(value: Any) -> Any:
    """Sequences of a frozen plugin are tuples."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def plain(value: Any) -> Any:
    """The value as YAML/JSON data: plugins become mappings with their ``name`` first.

    A field with ``metadata={"yaml": False}`` is left out.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if is_plugin(value) else {}
        shown = (f.name for f in fields(value) if f.metadata.get("yaml", True))
        return named | {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
