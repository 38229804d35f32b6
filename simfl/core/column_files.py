"""The file ``columns.json`` of a finished run, which describes its columns, and what a column can be."""

import json
from collections.abc import Iterable, Sequence
from typing import get_args

from simfl.core.certificate_words import ONLY_SUMS, taking_for_granted
from simfl.core.columns import COLLUDER_COLUMNS, ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS, Column, Final, Unit
from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject

FILE = "columns.json"
"""Its name, in the results folder."""

_DECLARED = (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS)
_OWN = {column.name: column for column in taking_for_granted((*_DECLARED, *COLLUDER_COLUMNS), ONLY_SUMS)}
"""simfl's columns of a run that does not say what its certificates take for granted."""


def document(columns: Iterable[Column]) -> list[JsonObject]:
    """The columns as plain data, as ``columns.json`` holds them."""
    return [column._asdict() for column in columns]


def read_columns(entries: Sequence[JsonObject]) -> list[Column]:
    """Columns of plain data; one that does not say what a certificate of simfl's takes for granted has the most."""
    by_default = ({} if (column := _OWN.get(entry["name"])) is None else column._asdict() for entry in entries)
    return [Column(**said | entry) for said, entry in zip(by_default, entries, strict=True)]


def columns_by_name(theirs_json: bytes | None = None) -> dict[str, Column]:
    """Every column that a run may have, by name: simfl's own, then those of its ``columns.json``.

    Args:
        theirs_json: the content of that file; None during the run, when there is none.

    Raises:
        IntegrityError: the content is no list of columns.
    """
    if theirs_json is None:
        return dict(_OWN)
    try:
        theirs = read_columns(json.loads(theirs_json))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise IntegrityError(f"{FILE}: not a list of columns ({error})") from None
    if wrong := next((f"'{column.name}' has {wrong}" for column in theirs for wrong in wrong_values(column)), None):
        raise IntegrityError(f"{FILE}: not a list of columns ({wrong})")
    said = {column.name: column.assumes for column in theirs}
    simfls = (column._replace(assumes=said.get(column.name, column.assumes)) for column in _DECLARED)
    return {column.name: column for column in (*theirs, *simfls)}


def wrong_values(column: Column) -> list[str]:
    """What a column cannot have, with what it can, such as ``"unit 'metres'; use number, count, bytes, ..."``."""
    texts = ("name", "heading", "sentence", "source", "words", "observer", "protects", "assumes")
    choices = {"unit": get_args(Unit), "final": (*get_args(Final), None), "better": (-1, 0, 1), "shown": (True, False)}
    usable = dict.fromkeys(texts, "a text") | {key: ", ".join(map(repr, values)) for key, values in choices.items()}
    return [f"{key} {value!r}; use {usable[key]}" for key, value in column._asdict().items()
            if (value not in choices[key] if key in choices else not isinstance(value, str))]  # fmt: skip
