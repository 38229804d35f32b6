"""What the plugins ``python`` of models, data sets and partitions have in common: whose object it is, and which."""

from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataFolder
from simfl.learning.objects.shorthand import DIGITS, NAMED

if TYPE_CHECKING:
    from simfl.learning.objects.handles import Handle

Fingerprint = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{DIGITS}}}$")]


@dataclass(frozen=True)
class PythonObject:
    """The fields; ``key`` is the scenario's key at which such a plugin stands."""

    object: Annotated[
        str,
        Field(
            max_length=500,
            pattern=rf"^({NAMED}|\w+(\.\w+)*)$",
            description="module:attribute; the class of one that was passed",
        ),
    ]
    handed_in: Annotated[
        bool, Field(description="a Python script has passed it, and must do so again to repeat the run")
    ] = False
    fingerprint: Annotated[
        Fingerprint | None, Field(description="of its code and content; null = as it is now, filled in when it is read")
    ] = None
    folder: Annotated[
        DataFolder | None, Field(description="searched for the module first; null = that of the scenario file")
    ] = None

    key: ClassVar[str] = ""

    def resolve(self, setting: ScenarioView) -> Self:
        """With fingerprint and folder. The module is imported where there is no fingerprint.

        Raises:
            ScenarioError: it cannot be, or it has no such object.
        """
        if self.handed_in:
            if self.fingerprint is None:
                raise ScenarioError("fingerprint", "is missing: it says which object was passed")
            return self
        if ":" not in self.object:
            raise ScenarioError("object", f"is written module:attribute (got {self.object})")
        known = replace(self, folder=self.folder or ".")
        return known if self.fingerprint else replace(known, fingerprint=self.handle(setting).fingerprint)

    def place(self, setting: ScenarioView) -> Path:
        """The folder in which modules are looked for first."""
        return Path(setting.file(self.folder or "."))

    def handle(self, setting: ScenarioView) -> "Handle":
        """The object with its fingerprint.

        Raises:
            ScenarioError: there is none, or another than when the scenario was completed.
        """
        from simfl.learning.objects.handles import find, load

        if self.handed_in:
            if (handle := find(self.fingerprint or "")) is None:
                why = f"{self.object} (fingerprint {self.fingerprint}) was passed by a Python script and is not here"
                raise ScenarioError("", f'{why}; pass it again: simfl.run or verify with {{"{self.key}": ...}}')
            return handle
        try:
            handle = load(self.key, self.object, self.place(setting))
        except ValueError as error:
            raise ScenarioError("object", str(error)) from None
        if self.fingerprint not in (None, handle.fingerprint):
            why = f"{self.object} has changed: its fingerprint is {handle.fingerprint}, not {self.fingerprint}"
            raise ScenarioError("fingerprint", f"{why}; leave the fingerprint out to use it as it is now")
        return handle


def python_objects(learning: object) -> list[PythonObject]:
    """The plugins ``python`` of what is learned, also inside others."""
    parts = [getattr(learning, field.name) for field in fields(learning)] if is_dataclass(learning) else []
    return [each for part in parts for each in (part, *python_objects(part)) if isinstance(each, PythonObject)]


def handed_in(learning: object) -> list[PythonObject]:
    """Those of them whose objects were handed in."""
    return [part for part in python_objects(learning) if part.handed_in]
