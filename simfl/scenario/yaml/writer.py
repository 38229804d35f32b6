"""Data as YAML that simfl reads back as the same data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from simfl.core.registration.protocol import plain
from simfl.scenario.yaml.reader import scalar

LINE_BREAKS = set("\r\x85\u2028\u2029")
"""What YAML 1.1 takes for line breaks besides the newline."""


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    def ignore_aliases(self, data: object) -> bool:
        return True


class _FastDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """libyaml, five times as fast, with the same bytes for mappings and lists but for line breaks, symbols that are
    escaped, and keys that are empty or long.
    """

    ignore_aliases = _Dumper.ignore_aliases


LONG_BYTES = 100
"""Keys near 128 bytes are written as ``? key``: libyaml counts bytes, PyYAML characters, and they begin elsewhere."""


class _NotTheSame(Exception):
    """libyaml may write this text otherwise."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # PyYAML quotes what YAML 1.1 would take for something else; simfl reads YAML 1.2.
    if set(value) & LINE_BREAKS:  # only escapes bring them back as they are
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')
    try:
        is_text = scalar(value) == value
    except ValueError:
        is_text = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_text and value != "<<" else "'")


def _text_of_libyaml(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    if not value or not value.isprintable() or max(value) > "\uffff" or len(value.encode()) > LONG_BYTES:
        raise _NotTheSame
    return _text(dumper, value)


_Dumper.add_representer(str, _text)
_FastDumper.add_representer(str, _text_of_libyaml)


def dump(data: object) -> str:
    """Block style outside, flow style for the innermost lists and mappings; keys in their order."""
    style = {"sort_keys": False, "default_flow_style": None, "allow_unicode": True, "width": 100}
    try:
        return yaml.dump(data, Dumper=_FastDumper, **style)
    except _NotTheSame:
        return yaml.dump(data, Dumper=_Dumper, **style)


def as_data(value: object) -> Any:
    """Python data as YAML can hold them: plugins as mappings, paths as texts, numpy's numbers as numbers."""
    if isinstance(value, Mapping):
        return {str(key): as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [as_data(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return plain(value)
