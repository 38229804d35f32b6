"""Several attacks in one scenario: the names of their columns must differ."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from simfl.columns import Column

__all__ = ["Label", "labelled"]

Label = Annotated[
    str, Field(pattern=r"^([a-z][a-z0-9_]*)?$", max_length=40, description="put before the names of its columns")
]


def labelled(columns: Sequence[Column], label: str) -> tuple[Column, ...]:
    """The columns under names of their own."""
    if not label:
        return tuple(columns)
    return tuple(c._replace(name=f"{label}_{c.name}", heading=f"{c.heading} ({label})") for c in columns)
