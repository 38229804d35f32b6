"""The file ``columns.json`` of a finished run, which describes its columns, and what a column can be."""

import json
from collections.abc import Iterable
from typing import get_args

from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS, Column, Final, Unit
from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject

FILE = "columns.json"
"""Its name, in the results folder."""


def document(columns: Iterable[Column]) -> list[JsonObject]:
    """The columns as plain data, as ``columns.json`` holds them."""
    return [column._asdict() for column in columns]


def columns_by_name(theirs_json: bytes | None = None) -> dict[str, Column]:
    """Every column that a run may have, by name: simfl's own, then those of its ``columns.json``.

    Args:
        theirs_json: the content of that file; None during the run, when there is none.

    Raises:
        IntegrityError: the content is no list of columns.
    """
    columns = {column.name: column for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS)}
    if theirs_json is None:
        return columns
    try:
        theirs = [Column(**entry) for entry in json.loads(theirs_json)]
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityError(f"{FILE}: not a list of columns ({error})") from None
    if wrong := next((f"'{column.name}' has {wrong}" for column in theirs for wrong in wrong_values(column)), None):
        raise IntegrityError(f"{FILE}: not a list of columns ({wrong})")
    return {column.name: column for column in theirs} | columns


def wrong_values(column: Column) -> list[str]:
    """What a column cannot have, with what it can, such as ``"unit 'metres'; use number, count, bytes, ..."``."""
    texts = ("name", "heading", "sentence", "source", "words")
    choices = {"unit": get_args(Unit), "final": (*get_args(Final), None), "better": (-1, 0, 1), "shown": (True, False)}
    usable = dict.fromkeys(texts, "a text") | {key: ", ".join(map(repr, values)) for key, values in choices.items()}
    return [f"{key} {value!r}; use {usable[key]}" for key, value in column._asdict().items()
            if (value not in choices[key] if key in choices else not isinstance(value, str))]  # fmt: skip
