"""Plugins: a frozen dataclass, registered under a name, is a scenario choice.

Registering a class gives it a YAML name, validation of its fields, an entry in ``simfl list`` and
``simfl schema``, and the family's contract tests. There is no second description of its fields::

    @POLICIES("least_used")
    @dataclass(frozen=True)
    class LeastUsed:
        k: Annotated[int, Field(ge=1, description="clients in an aggregation")]

Packages add plugins through the entry point group ``simfl.<family>``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from pydantic import ConfigDict
from pydantic_core import PydanticCustomError, core_schema

__all__ = ["FAMILIES", "Registry", "plain"]

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
    """

    __hash__ = object.__hash__  # typing hashes what stands in a union

    def __init__(self, family: str, number: tuple[str, str] | None = None, default: str | None = None) -> None:
        self.family = family
        self.number = number
        self.default = default
        self._plugins: dict[str, type] = {}
        self._loaded = False
        FAMILIES[family] = self

    def __call__(self, name: str) -> Callable[[Class], Class]:
        def register(cls: Class) -> Class:
            if not is_dataclass(cls):
                raise TypeError(f"{self.family} '{name}' must be a dataclass")
            if name in self._plugins:
                raise ValueError(f"{self.family} '{name}' is registered twice")
            cls.name = name
            cls.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
            self._plugins[name] = cls
            return cls

        return register

    def _load(self) -> dict[str, type]:
        if not self._loaded:
            self._loaded = True
            for entry in entry_points(group=f"simfl.{self.family}"):
                entry.load()
        return self._plugins

    def __getitem__(self, name: str) -> type:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._load()))

    def __len__(self) -> int:
        return len(self._load())

    def normalise(self, value: Any) -> Any:
        """The mapping that a bare name or a bare number is short for; anything else as it is."""
        if isinstance(value, str):
            return {"name": value}
        if self.number and isinstance(value, (int, float)) and not isinstance(value, bool):
            name, field = self.number
            return {"name": name, field: value}
        if self.default and isinstance(value, dict) and "name" not in value:
            return {"name": self.default, **value}
        return value

    # -- pydantic: validation ------------------------------------------------------------------

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        choices: dict[str, core_schema.CoreSchema] = {
            name: core_schema.no_info_before_validator_function(_without_name, handler.generate_schema(self[name]))
            for name in self
        }
        union = core_schema.tagged_union_schema(choices, discriminator="name")
        return core_schema.no_info_before_validator_function(self._prepare, union)

    def _prepare(self, value: Any) -> Any:
        if type(value) in self._plugins.values():
            return {"name": value.name, **{f.name: getattr(value, f.name) for f in fields(value)}}
        value = self.normalise(value)
        if not isinstance(value, dict):
            raise PydanticCustomError("plugin", "a name or a mapping with 'name' is needed")
        name = value.get("name")
        if name is None:
            raise PydanticCustomError("plugin_name", "'name' is missing (one of {known})", {"known": ", ".join(self)})
        if name not in set(self):
            raise PydanticCustomError(
                "plugin_unknown", "unknown {family} '{name}'", {"family": self.family, "name": str(name)}
            )
        return value

    # -- pydantic: JSON Schema -------------------------------------------------------------------

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        options: list[dict[str, Any]] = [{"enum": list(self), "title": f"{self.family} (name only)"}]
        if self.number:
            options.append({"type": "number", "title": f"{self.number[0]}: {self.number[1]}"})
        for name, choice in schema["schema"]["choices"].items():
            body = dict(handler.resolve_ref_schema(handler(choice["schema"])))
            doc = (self[name].__doc__ or "").strip().split("\n\n")[0]
            tag = {"const": name, "title": "name", "description": " ".join(doc.split())}
            body["properties"] = {"name": tag, **body.get("properties", {})}
            body["required"] = [*([] if name == self.default else ["name"]), *body.get("required", [])]
            body["title"] = f"{self.family} {name}"
            options.append(body)
        return {"anyOf": options}


def _without_name(value: dict[str, Any]) -> dict[str, Any]:
    return {key: _frozen(item) for key, item in value.items() if key != "name"}


def _frozen(value: Any) -> Any:
    """Sequences of a frozen plugin are tuples."""
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def plain(value: Any) -> Any:
    """The value as YAML/JSON data: plugins become mappings with their ``name`` first."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if hasattr(type(value), "__pydantic_config__") and hasattr(value, "name") else {}
        return named | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
