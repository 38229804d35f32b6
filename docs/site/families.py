"""The page of plugin families, from the registries."""

import json
from typing import Any

import simfl.agents  # noqa: F401  # the servers, which a scenario does not choose itself
from simfl.cli.list import catalogue
from simfl.core.registration.family_index import FAMILIES

UNCHOSEN = {"server"}
"""Families that a training rule names and no scenario does: their fields are no YAML keys."""

HEAD = """# Plugin families

*Generated from the registries; `simfl list FAMILY` prints the same.* A scenario chooses a plugin by its name, and the
plugin's fields are YAML keys. The protocol of a family says what a plugin of your own must offer ([how to extend
simfl](../../how-to/extend.md)).
"""


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for family, plugins in catalogue().items():
        protocol = FAMILIES[family].protocol
        parts.append(f"## {family}\n\nProtocol: {{py:class}}`{protocol.__module__}.{protocol.__qualname__}`\n")
        for name, plugin in plugins.items():
            default = " (default)" if plugin["default"] else ""
            parts.append(f"### {family}: {name}{default}\n\n{_escaped(plugin['description'])}\n")
            if plugin["fields"] and family not in UNCHOSEN:
                parts.append("| key | type | default | meaning |\n|---|---|---|---|")
                parts.append("\n".join(_row(field) for field in plugin["fields"]) + "\n")
    return "\n".join(parts)


def _row(field: dict[str, Any]) -> str:
    default = "required" if field["required"] else f"`{json.dumps(field['default'])}`"
    return f"| `{field['name']}` | {_escaped(field['type'])} | {default} | {_escaped(field['description'])} |"


def _escaped(text: str) -> str:
    """The text without Markdown's meanings, but for code between backticks."""
    return "`".join(
        part if i % 2 else "".join(f"\\{sign}" if sign in "\\*_{}[]<>|$#~" else sign for sign in part)
        for i, part in enumerate(text.split("`"))
    )
