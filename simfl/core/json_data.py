"""What JSON, YAML and other texts hold; imports nothing slow, so that commands start fast."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

JsonObject = dict[str, Any]
"""Plain data with names for keys: numbers, texts, lists and such objects."""


def flat(document: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """A document as dotted keys with text values; lists count as one value."""
    values: dict[str, str] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[prefix + str(key)] = value if isinstance(value, str) else json.dumps(value)
    return values


def number_of(text: str | bytes, otherwise: T) -> float | T:
    """The number that a text is, perhaps infinite or NaN; else another value."""
    try:
        return float(text)
    except ValueError:
        return otherwise
