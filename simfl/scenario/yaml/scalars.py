"""Plain scalars by the YAML 1.2 core schema: ``1e-3`` is a number, ``no`` and ``12:30`` are text, ``012`` is 12."""

import math
import re

Scalar = None | bool | int | float | str

LARGEST = 2**63 - 1
"""No integer of a scenario is larger in magnitude: all of them fit numpy's int64."""

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400


def scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    Raises:
        ValueError: infinity, not-a-number, or a number too large; the message says so.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        if len(text) > _LONGEST_NUMBER:
            raise ValueError(f"a number of {len(text)} characters is too long")
        value = float(text)
        if math.isinf(value):
            raise ValueError("the number is too large; the largest is 1.7e308")
        return value
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("infinity and not-a-number are not allowed; a finite number is needed")
    return text


def _integer(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    digits = text.lstrip("+-0ox") or "0"
    value = int(text, base) if len(digits) <= 22 and len(text) <= _LONGEST_NUMBER else LARGEST + 1
    if abs(value) > LARGEST:
        raise ValueError(f"the integer is too large; the largest is {LARGEST}")
    return value
