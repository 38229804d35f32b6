"""Where in a file (or in which override) a key stands, and what is wrong there."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from simfl.core.errors import ScenarioError, printable

KeyPath = tuple[Any, ...]
"""Keys and list indices from the top of the data, e.g. ``("devices", "failure", "probability")``."""

SHOWN_PROBLEMS = 100
SHOWN_CHARACTERS = 60
SHOWN_DEPTH = 10


@dataclass(frozen=True)
class Place:
    """A spot in a text.

    Attributes:
        source: the file as the user named it, or ``override key=value``.
        line, column: from 1; 0 where the whole source is meant.
        extended_by: the file that the user named, where it extends the source.
    """

    source: str
    line: int = 0
    column: int = 0
    extended_by: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    def below(self, top: "Place") -> "Place":
        """This place, in a file that the file ``top`` extends."""
        return replace(self, extended_by=top.source)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, at which dotted_key key (may be empty), and what."""

    place: Place
    key: str
    message: str

    def __str__(self) -> str:
        text = ": ".join(part for part in (str(self.place), self.key, self.message) if part)
        return printable(f"{text} (extended by {self.place.extended_by})" if self.place.extended_by else text)

    def extended_by(self, document: "Places") -> "Problem":
        """This problem, in a file that a document extends."""
        return replace(self, place=self.place.below(document.top))


class InvalidScenario(ScenarioError):
    """Everything that is wrong with one scenario, one line a problem (exit 2).

    Args:
        problems: at least one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems[0].key, self.problems[0].message)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        if len(self.problems) > SHOWN_PROBLEMS:
            lines.append(f"... and {len(self.problems) - SHOWN_PROBLEMS} more problems")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return InvalidScenario, (self.problems,)


@dataclass
class Places:
    """The places of all keys and values of one text.

    Attributes:
        top: the text as a whole.
        keys: where each key stands.
        values: where each value begins.
    """

    top: Place
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)

    def of(self, path: KeyPath, key: bool = False) -> Place:
        """The place of a value (or of its key); of the nearest enclosing value where it has none of its own."""
        if key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, self.top)

    def extended_by(self, document: "Places") -> "Places":
        """These places below those of a document that extends this one; all of them name it."""
        keys, values = (
            {path: place.below(document.top) for path, place in places.items()} for places in (self.keys, self.values)
        )
        return Places(document.top, keys, values)

    def replace(self, path: KeyPath, place: Place) -> None:
        """From now on the key and its value, with all that is inside, stand at ``place``."""
        for places in (self.keys, self.values):
            for inside in [known for known in places if known[: len(path)] == path]:
                del places[inside]
            places[path] = place


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Without repetitions, in the order of the file; overrides last."""
    places = {problem: problem.place for problem in problems}
    return sorted(places, key=lambda p: (places[p].source.startswith("override "), places[p].line, places[p].column))


def dotted_key(path: KeyPath) -> str:
    """The path as users write it: ``training.decay_at.0``."""
    parts = [str(part) if re.fullmatch(r"[\w-]{1,100}", str(part)) else shown(str(part)) for part in path]
    return ".".join(parts if len(parts) <= SHOWN_DEPTH else [*parts[:SHOWN_DEPTH], "..."])


def shown(value: object) -> str:
    """A value for a message: short, on one line, without control characters."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
        return ascii(value[:SHOWN_CHARACTERS]) + "..."
    return ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)


def leads_on(data: object, step: object) -> bool:
    """Whether data have something at a key or an index."""
    if isinstance(data, dict):
        return step in data
    return isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data)
