"""Figures that plugin files of results bring: the files are looked at, never executed."""

import os
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

from simfl.core.errors import PLUGIN_FILE, printable
from simfl.core.registration.source_code import LARGEST_BYTES
from simfl.core.storage.disk import open_regular
from simfl.report.figures import FIGURES
from simfl.report.study import Study
from simfl.results.file_names import SCENARIO
from simfl.scenario.yaml.places import shown

SHOWN_FILES = 5
MOST_FILES = 100
"""Plugin files that are looked at."""

_FIGURE = re.compile(rb"@(?:\w+\.)*figure\(\s*(?:name\s*=\s*)?[\"']([^\"'\s]+)")


def missing_figures_hint(study: Study, name: str | None = None) -> str:
    """How to draw the figures that plugin files of the results would bring; empty where none is missing.

    Args:
        study: whose scenarios name plugin files.
        name: of the figure that is asked for; None = all.
    """
    files = [
        text
        for text, path in islice(_named_files(study), MOST_FILES)
        if any(figure not in FIGURES and name in (None, figure) for figure in _figures(path))
    ]
    if not files:
        return ""
    listed = printable(", ".join(files[:SHOWN_FILES])) + ", ..." * (len(files) > SHOWN_FILES)
    return f"plugin files that the results name are not executed ({listed}); --plugin FILE adds the figures of a file"


def unreadable_plugins(study: Study) -> str:
    """Where the results name plugin files in a way that nobody can read, in one line; empty if nowhere."""
    for group in study.groups:
        plugins = group.first.scenario.get("plugins", [])
        wrong = plugins if not isinstance(plugins, list) else next((f for f in plugins if not isinstance(f, str)), "")
        if wrong != "":
            return f"{group.first.path / SCENARIO}: plugins: is no list of files (got {shown(wrong)}); it is left out"
    return ""


def _named_files(study: Study) -> Iterator[tuple[str, Path]]:
    """Each plugin file as seen from the working directory, and its path."""
    named: dict[str, Path] = {}
    for group in study.groups:
        plugins = group.first.scenario.get("plugins")
        for file in plugins if isinstance(plugins, list) else ():
            if isinstance(file, str) and file.endswith(".py"):
                path = group.first.path / file
                named.setdefault(os.path.relpath(path), path)
    yield from sorted(named.items())


def _figures(path: Path) -> set[str]:
    """The figures that a plugin file which has not been executed registers, as far as its text tells."""
    try:
        with open_regular(path) as file:
            text = file.read(LARGEST_BYTES)
    except (OSError, ValueError):
        return set()
    if PLUGIN_FILE + sha256(text).hexdigest() in sys.modules:
        return set()
    return {name.decode(errors="replace") for name in _FIGURE.findall(text)}
