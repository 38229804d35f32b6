"""Where a scenario was read, which no key of it says."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError, core_schema

from simfl.core.json_data import JsonObject
from simfl.core.scenario_view import RuntimeOptions
from simfl.scenario.yaml.places import Place, Places


@dataclass(frozen=True)
class Source:
    """Where a scenario was read.

    Attributes:
        folder: what its data files are relative to.
        places: where its keys stand.
        means: with what it is run.
        notes: what was chosen because the scenario does not say it, in words.
    """

    folder: Path = Path()
    places: Places = field(default_factory=lambda: Places(Place("scenario")))
    means: RuntimeOptions = RuntimeOptions()
    notes: tuple[str, ...] = ()


class NotAKey:
    """Marks a field of the scenario that no YAML key sets."""

    @staticmethod
    def __get_pydantic_core_schema__(source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(NotAKey.refuse)

    @staticmethod
    def refuse(value: object) -> Any:
        raise PydanticCustomError("unexpected_keyword_argument", "unknown key")

    @staticmethod
    def __get_pydantic_json_schema__(schema: object, handler: object) -> JsonObject:
        return {"not": {}}
