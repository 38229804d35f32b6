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


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # PyYAML quotes what YAML 1.1 would take for something else; simfl reads YAML 1.2.
    if set(value) & LINE_BREAKS:  # only escapes bring them back as they are
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')
    try:
        is_text = scalar(value) == value
    except ValueError:
        is_text = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_text and value != "<<" else "'")


_Dumper.add_representer(str, _text)


def dump(data: object) -> str:
    """Block style outside, flow style for the innermost lists and mappings; keys in their order."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)


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
