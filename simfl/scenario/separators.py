"""What separates what: one rule for ``run``, ``sweep``, ``compare`` and ``search``, in a shell, in files, in Python.

* A comma separates values: ``selection.k=4,8``. Commas inside brackets and quotes do not.
* The fields of a plugin follow its name and a colon: ``batch_partition:T=4,mode=fair``. What reads ``field=value``
  behind such a plugin is another field of it, not a value: ``random,batch_partition:T=4,mode=fair`` are two values.
  A semicolon separates fields, too: ``batch_partition:T=4;mode=fair``.
"""

import re

SHORTHAND = re.compile(r"([A-Za-z_][\w-]*):(?=[A-Za-z_][\w.-]*=)")
"""How a plugin with fields begins: its name, a colon, and the first field's name and equals sign behind it."""

_FIELD = re.compile(r"\s*[A-Za-z_][\w.-]*=")


def split_values(text: str) -> list[str]:
    """The values of a key, each as ``simfl run`` takes it, fields separated by commas.

    >>> split_values("random,batch_partition:T=4;mode=fair,[1, 2]")
    ['random', 'batch_partition:T=4,mode=fair', '[1, 2]']
    """
    values: list[str] = []
    for part in _split(text, ","):
        if values and SHORTHAND.match(values[-1]) and _FIELD.match(part):
            values[-1] += f",{part.strip()}"
        else:
            values.append(part.strip())
    return [_with_commas(value) for value in values]


def split_fields(text: str) -> list[str]:
    """The fields of a plugin, from the text behind its colon.

    >>> split_fields("T=4,mode=fair;weights=[1, 2]")
    ['T=4', 'mode=fair', 'weights=[1, 2]']
    """
    return [field for part in _split(text, ",") for field in _at_semicolons(part)]


def _with_commas(value: str) -> str:
    match = SHORTHAND.match(value)
    return value[: match.end()] + ",".join(split_fields(value[match.end() :])) if match else value


def _at_semicolons(text: str) -> list[str]:
    """The parts before and behind semicolons that a field follows."""
    fields: list[str] = []
    for part in _split(text, ";"):
        if fields and not _FIELD.match(part):
            fields[-1] += f";{part}"
        else:
            fields.append(part)
    return fields


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand in no bracket and no quote."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
        if character == separator and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
