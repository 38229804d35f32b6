"""One JSON value that holds a whole log, in the forms in which programs write one."""

import json
from collections.abc import Callable, Iterator
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

from simfl.plugins import JsonObject, SimflError

Likely = Callable[[str, str], bool]


def records_of(
    path: Path, data: bytes, decoder: json.JSONDecoder, lists: bool, role: Callable[[str], str], likely: Likely
) -> list[JsonObject] | None:
    """The records of a file that is one JSON value; None where it is not, or is a single record.

    Forms: a list of records; a list of lists of clients, one a round; one of ``[round, [clients]]``; ``{round:
    [clients]}``; ``{round: {client: weight}}``; ``{column: [values]}`` or ``{column: {row: value}}`` of names that are
    chosen or known; and a history as Flower's, with one list of ``[round, [clients]]`` somewhere.

    Args:
        path: for messages.
        data: its bytes.
        decoder: of JSON.
        lists: what may be rows or columns of a matrix or of a table are the clients of each round.
        role, likely: what a column of a name may be read as, and whether that is likely.

    Raises:
        SimflError: it is one value, and in none of these forms.
    """
    try:
        value = decoder.decode(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        if not lists and _may_be_matrix(value):
            why = "lists of 0 and 1 may be clients, or rows of a matrix; give --form lists, or save a matrix as .npy"
            raise SimflError(f"{path}: {why}")
        if not lists and _may_be_table(value):
            why = "may be the clients of each round, or rows of round and client; give --form lists, or save a CSV file"
            raise SimflError(f"{path}: its lists {why}")
        records = _of_list(value)
    else:
        columns = isinstance(value, dict) and _are_columns(value, lists, role, likely)
        if columns is None:
            why = "give --form lists, or --columns round=NAME,client=NAME, or save a CSV file"
            raise SimflError(f"{path}: may have rounds and their clients, or columns and their rows; {why}")
        records = _of_dict(value, columns) if isinstance(value, dict) else None
    if records is None and isinstance(value, dict) and not all(isinstance(it, (dict, list)) for it in value.values()):
        return None  # one record on one line
    if records is None:
        forms = "records, {round: [clients]}, {round: {client: weight}}, a list of lists of clients"
        raise SimflError(f"{path}: JSON in none of the forms of a log: {forms}; or one object a line")
    return records


def _may_be_matrix(value: list[Any]) -> bool:
    rows = [each for each in value if isinstance(each, list)]
    same_length = len(rows) == len(value) > 0 and len(set(map(len, rows))) == 1
    return same_length and all(cell in (0, 1) for row in rows for cell in row)


def _may_be_table(value: list[Any]) -> bool:
    """Whether lists may be rows of a table: all of one length, none twice, with numbers and texts in a row, or few in
    each, of which the first never falls and comes again.
    """
    rows = [tuple(each) for each in value if isinstance(each, list) and len(each) > 1 and all(map(_is_label, each))]
    if len(rows) < len(value) or len({*map(len, rows)}) != 1 or len({*rows}) < len(rows):
        return False
    kinds = [{*map(type, column)} for column in zip(*rows)]
    first = [row[0] for row in rows]
    if len(set().union(*kinds)) > 1:
        return True
    return len(kinds) <= 3 and first == sorted(first) and len(set(first)) < len(first)


def _of_list(value: list[Any]) -> list[JsonObject] | None:
    if value and all(isinstance(each, dict) for each in value):
        return value
    if value and all(map(_is_pair, value)):
        return _of_rounds(value)
    if value and all(isinstance(each, list) and all(_is_label(client) for client in each) for each in value):
        return _of_rounds(enumerate(value))
    return None


def _are_columns(value: JsonObject, lists: bool, role: Callable[[str], str], likely: Likely) -> bool | None:
    """Whether names are those of columns, chosen or known; None = of columns or rounds, whose rows or clients agree."""
    parts = [*value.values()]
    rows = {tuple(part) if isinstance(part, dict) else isinstance(part, list) and len(part) for part in parts}
    if any(role(name) in ("round", "client") for name in value) and all(isinstance(it, (list, dict)) for it in parts):
        return True if len(rows) == 1 or all(isinstance(part, list) for part in parts) else None
    if lists or len(rows) != 1 or rows == {False} or len(parts) < 2:
        return False
    rounds, clients = ([name for name in value if likely(name, each)] for each in ("round", "client"))
    if any(one != two for one, two in product(rounds, clients)):
        return True
    cells = [] if isinstance(parts[0], dict) else [*chain(*parts)]  # with the same rows, dicts may always be either
    if not all(map(_is_label, cells)):
        return False
    of_rounds = all(any(map(str.isdigit, name)) for name in value)
    return None if not of_rounds or {*cells} <= {0, 1} or len({frozenset(map(type, it)) for it in parts}) > 1 else False


def _of_dict(value: JsonObject, are_columns: bool) -> list[JsonObject] | None:
    parts = list(value.values())
    if are_columns:
        columns = [part.values() if isinstance(part, dict) else part for part in parts]
        return [dict(zip(value, row, strict=True)) for row in zip_longest(*columns)]
    if parts and all(isinstance(part, list) and all(_is_label(client) for client in part) for part in parts):
        return _of_rounds(value.items())
    if parts and all(isinstance(part, dict) and all(map(_is_number, part.values())) for part in parts):
        return [
            {"round": number, "client": client, "weight": weight}
            for number, part in value.items()
            for client, weight in part.items()
        ]
    histories = [part for part in _lists(value) if part and all(map(_is_pair, part))]
    return _of_rounds(histories[0]) if len(histories) == 1 else None


def _of_rounds(rounds: Any) -> list[JsonObject]:
    return [{"round": number, "client": clients} for number, clients in rounds if clients]


def _is_pair(value: object) -> bool:
    """Whether it is a round and its clients."""
    match value:
        case [number, [*clients]]:
            return all(map(_is_label, (number, *clients)))
    return False


def _is_label(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return type(value).__name__ in ("int", "float", "Written")


def _lists(value: object) -> Iterator[list[Any]]:
    """All lists in a value, outer ones first."""
    if isinstance(value, list):
        yield value
    for part in value.values() if isinstance(value, dict) else ():
        yield from _lists(part)
