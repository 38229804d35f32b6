"""A name for what JSON and YAML hold; imports nothing, so that commands start fast."""

from typing import Any

JsonObject = dict[str, Any]
"""Plain data with names for keys: numbers, texts, lists and such objects."""
