"""Several attacks in one scenario: the names of their columns must differ."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from simfl.columns import Column
from simfl.setting import Setting

__all__ = ["Label", "clashes", "labelled"]

Label = Annotated[
    str, Field(pattern=r"^([a-z][a-z0-9_]*)?$", max_length=40, description="put before the names of its columns")
]


def labelled(columns: Sequence[Column], label: str) -> tuple[Column, ...]:
    """The columns under names of their own."""
    if not label:
        return tuple(columns)
    return tuple(c._replace(name=f"{label}_{c.name}", heading=f"{c.heading} ({label})") for c in columns)


def clashes(attack: Any, setting: Setting) -> list[tuple[str, str]]:
    """The problem of an attack whose columns have the names of another's."""

    def names(each: Any) -> set[str]:
        return {column.name for column in (*each.columns, *each.finals)}

    if any(names(attack) & names(other) for other in setting.attacks if other is not attack):
        return [("label", "is the same for two attacks, whose columns would have the same names; set one")]
    return []
