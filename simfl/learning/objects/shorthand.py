"""Texts in a scenario that stand for Python objects."""

import re

from simfl.core.json_data import JsonObject

DIGITS = 16
"""Hexadecimal digits of a fingerprint."""

NAMED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
HANDED_IN = rf"(?P<label>\w+(\.\w+)*)#(?P<mark>[0-9a-f]{{{DIGITS}}})"


def shorthand(text: str) -> JsonObject | None:
    """The mapping that ``module:attribute``, or a handed-in object's label and fingerprint, is short for, or None.

    >>> shorthand("nets:Net")["object"], shorthand("Net#0123456789abcdef")["handed_in"], shorthand("mlp")
    ('nets:Net', True, None)
    """
    if match := re.fullmatch(HANDED_IN, text):
        return {"name": "python", "object": match["label"], "handed_in": True, "fingerprint": match["mark"],
                "folder": None}  # fmt: skip
    if re.fullmatch(NAMED, text):
        return {"name": "python", "object": text, "handed_in": False, "fingerprint": None, "folder": None}
    return None
