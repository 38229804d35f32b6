"""When and on what a global model is measured."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from simfl.core.registration.protocol import SINCE_LATER


@dataclass(frozen=True)
class EvaluationSettings:
    """Test loss and accuracy every so many rounds; more on request."""

    every: Annotated[
        int, Field(ge=0, description="evaluate after every so many rounds and after the last; 0 = never")
    ] = 1
    samples: Annotated[
        int | None, Field(ge=1, description="use so many test samples, drawn once; null = all of them")
    ] = None
    per_class: Annotated[bool, Field(description="loss and accuracy of every class too")] = False
    per_client: Annotated[
        bool, Field(description="accuracy of each client's model on its own test (else training) samples too")
    ] = False
    best: Annotated[
        bool, Field(description="with per_client: the best accuracy so far of the models that a client trained, too")
    ] = field(default=False, metadata=SINCE_LATER)

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)


def _short(value: object) -> object:
    return {"every": value} if isinstance(value, int) and not isinstance(value, bool) else value


EvaluationField = Annotated[
    EvaluationSettings, BeforeValidator(_short, json_schema_input_type=Annotated[int, Field(ge=0)] | EvaluationSettings)
]
"""A field that holds an evaluation; a number is short for ``{every: n}``."""
