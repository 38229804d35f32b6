"""Strict, bounded YAML: text in, plain data with places out; every problem found, nothing executed.

PyYAML's event stream is turned into data here, so that limits hold while reading (a bomb is refused
before it unfolds), every key keeps its line and column, and scalars follow YAML 1.2. Refused are tags,
merge keys, duplicate keys, keys that are not text, aliases of a value inside itself, several documents,
infinity and not-a-number, and characters that YAML does not allow.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from simfl.scenario.yaml.places import KeyPath, Place, Places, Problem, dotted_key, shown

MAX_DEPTH = 64
MAX_ALIASES = 100
MAX_VALUES = 100_000
MAX_PROBLEMS = 1000

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REFUSED = object()
"""Stands for a key that was refused: what belongs to it is read, checked and dropped."""

Scalar = None | bool | int | float | str

LARGEST = 2**63 - 1
"""No integer of a scenario is larger in magnitude: all of them fit numpy's int64."""

_NULL = {"", "~", "null", "Null", "NULL"}

_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_LONGEST_NUMBER = 400

MAX_BYTES = 1_000_000

FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that YAML does not allow."""

INDENTED = "this line is indented like nothing above it: keys of one mapping begin in one column"

DEEPER = (
    "no key may stand here: the line is indented deeper than its neighbours, no space follows the ':' of a line above, "
    "or text that holds ': ' needs quotes"
)

BRACKET = "a ',' or the closing ']' is missing before this"

BRACE = "a ',' or the closing '}' is missing before this"

IN_WORDS = (
    ("did not find expected key", "flow mapping", BRACE),
    ("did not find expected key", "", INDENTED),
    ("expected <block end>", "", INDENTED),
    ("<document start>", "", INDENTED),
    ("did not find expected '-' indicator", "", INDENTED),
    ("mapping values are not allowed", "", DEEPER),
    ("could not find expected ':'", "", "a ':' is missing after the key (on this line or the one before)"),
    ("sequence entries are not allowed", "", "a list begins on a new line with '- ', or stands in [brackets]"),
    ("expected ',' or ']'", "", BRACKET),
    ("expected ',' or '}'", "", BRACE),
    ("unexpected end of stream", "quoted scalar", "a quote is opened and not closed"),
    ("tab character", "", "a tab indents this line"),
    ("cannot start any token", "", "a value cannot begin with this character; write it in quotes"),
    ("expected node content", "", "a value is missing before this"),
    ("expected the node content", "", "a value is missing before this"),
    ("unknown escape character", "", "a backslash in double quotes begins an escape; write two, or use single quotes"),
)
"""A parser's complaint and its context, and what they mean to who wrote the text; both of PyYAML's parsers are here."""


@dataclass
class Document:
    """What a text says.

    Attributes:
        value: plain data: dict, list, str, int, float, bool, None.
        places: where everything stands.
        problems: what was refused.
        spoiled: the keys whose values were refused; what else is said about them would only confuse.
    """

    value: Any
    places: Places
    problems: list[Problem] = field(default_factory=list)
    spoiled: set[KeyPath] = field(default_factory=set)

    def copy(self) -> "Document":
        """The same, sharing nothing that can change."""
        places = Places(self.places.top, dict(self.places.keys), dict(self.places.values))
        return Document(_unshare(self.value), places, list(self.problems), set(self.spoiled))


@dataclass
class _Open:
    """A list or mapping that is being read; ``key`` is None between two entries of a mapping."""

    value: dict[Any, Any] | list[Any]
    path: KeyPath
    anchor: str | None
    key: Any = None
    size: int = 1
    height: int = 1


@dataclass(frozen=True)
class _Anchored:
    value: Any
    size: int
    height: int


class _Stop(Exception):
    """Reading cannot go on; the problem has been noted."""


def read(text: str, source: str) -> Document:
    """Reads one YAML document.

    Args:
        text: at most ``MAX_BYTES`` characters.
        source: what places are called after, e.g. the file's name.
    """
    reader = _Reader(Document(None, Places(Place(source))), source)
    try:
        reader.read(text)
    except _Stop:
        reader.document.value = None
        reader.document.spoiled.add(())
    return reader.document


class _Reader:
    def __init__(self, document: Document, source: str) -> None:
        self.document = document
        self.source = source
        self.open: list[_Open] = []
        self.anchors: dict[str, _Anchored | None] = {}
        self.aliases = 0
        self.values = 0
        self.documents = 0

    # -- the event loop ----------------------------------------------------------------------

    def read(self, text: str) -> None:
        if len(text) > MAX_BYTES:
            self.stop(None, f"the text is longer than {MAX_BYTES:,} characters")
        if bad := FORBIDDEN.search(text):
            before = text[: bad.start()]
            place = Place(self.source, before.count("\n") + 1, bad.start() - before.rfind("\n"))
            self.problem(place, f"character {ascii(bad.group())} is not allowed")
            raise _Stop
        try:
            for event in yaml.parse(text, Loader=Loader):
                self.take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            hint = "; indent with spaces, not tabs" if mark and tab_before(text, mark.line, mark.column) else ""
            self.stop(mark, f"not valid YAML: {in_words(error.problem or '', error.context or '')}{hint}")
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML lets some through from chr() and int()
            self.stop(None, f"not valid YAML: {' '.join(str(error).split())}")
        if not self.documents:
            self.stop(None, "the file is empty")

    def take(self, event: yaml.Event) -> None:
        mark = event.start_mark
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self.stop(mark, "a second document begins here; one file holds one scenario")
            case yaml.ScalarEvent():
                self.scalar(event)
            case yaml.AliasEvent():
                self.alias(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self.begin(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.end(mark)

    # -- values --------------------------------------------------------------------------------

    def scalar(self, event: yaml.ScalarEvent) -> None:
        value: Any = event.value
        try:
            if event.tag is not None:
                raise ValueError(f"the tag {shown(event.tag)} is not allowed")
            if event.implicit[0] and not (value == "<<" and self.at_key()):
                value = scalar(value)
            if isinstance(value, str) and FORBIDDEN.search(value):
                raise ValueError("the text holds a character that is not allowed")
        except ValueError as error:
            if event.anchor:
                self.anchors[event.anchor] = _Anchored(None, 1, 0)
            self.refuse(event.start_mark, f"{error} (got {shown(event.value)})")
            return
        if event.anchor:
            self.anchors[event.anchor] = _Anchored(value, 1, 0)
        if value == "<<" and event.implicit[0] and self.at_key():
            self.refuse(event.start_mark, "merge keys '<<' are not allowed; repeat the fields")
            return
        self.put(value, event.start_mark, 1, 0)

    def alias(self, event: yaml.AliasEvent) -> None:
        name = event.anchor
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            self.stop(event.start_mark, f"more than {MAX_ALIASES} aliases")
        if name not in self.anchors:
            self.refuse(event.start_mark, f"alias '*{shown(name)[1:-1]}' refers to no anchor before it")
        elif (anchored := self.anchors[name]) is None:
            self.stop(event.start_mark, f"alias '*{shown(name)[1:-1]}' stands inside the value it refers to")
        else:
            self.put(anchored, event.start_mark, anchored.size, anchored.height)

    def begin(self, event: yaml.CollectionStartEvent, value: dict[Any, Any] | list[Any]) -> None:
        if event.tag is not None:
            self.problem(self.place(event.start_mark), f"the tag {shown(event.tag)} is not allowed", self.path())
        if len(self.open) >= MAX_DEPTH:
            self.stop(event.start_mark, f"nested more than {MAX_DEPTH} deep")
        if event.anchor:
            self.anchors[event.anchor] = None
        path = self.path()
        if self.at_key():
            self.problem(self.place(event.start_mark), "a key must be text, not a list or mapping", path)
            path = (*path, _REFUSED)
        self.document.places.values[path] = self.place(event.start_mark)
        self.open.append(_Open(value, path, event.anchor))

    def end(self, mark: yaml.Mark) -> None:
        closed = self.open.pop()
        if closed.anchor:
            self.anchors[closed.anchor] = _Anchored(closed.value, closed.size, closed.height)
        if closed.path and closed.path[-1] is _REFUSED and self.at_key():
            self.open[-1].key = _REFUSED
        else:
            self.put(closed.value, None, closed.size, closed.height)

    def put(self, value: object, mark: yaml.Mark | None, size: int, height: int) -> None:
        """A value is complete: it is the next key, value or item of what is open, or the whole document.

        ``mark`` is None for a list or mapping that was read here: its place is known since it began.
        """
        self.values += 1 if mark is None else size  # what is inside a list or mapping was counted on its way
        if self.values > MAX_VALUES:
            self.stop(mark, f"more than {MAX_VALUES:,} values once aliases are unfolded")
        if len(self.open) + height > MAX_DEPTH:
            self.stop(mark, f"nested more than {MAX_DEPTH} deep once aliases are unfolded")
        if self.at_key():
            self.key(_copy(value), self.place(mark))
            return
        path = self.path()
        if mark is not None:
            self.document.places.values[path] = self.place(mark)
        if not self.open:
            self.document.value = _copy(value)
            return
        parent = self.open[-1]
        parent.size += size
        parent.height = max(parent.height, height + 1)
        if isinstance(parent.value, list):
            parent.value.append(_copy(value))
        elif parent.key is not _REFUSED:
            parent.value[parent.key] = _copy(value)
        parent.key = None

    def key(self, value: object, place: Place) -> None:
        parent = self.open[-1]
        parent.key = _REFUSED
        if not isinstance(value, str):
            self.problem(place, f"a key must be text; write it in quotes (got {shown(value)})", parent.path)
        elif value in parent.value:
            first = self.document.places.keys[*parent.path, value]
            path = (*parent.path, value)
            self.problem(place, f"duplicate key {shown(value)}, first on line {first.line}", path)
        else:
            parent.key = value
            self.document.places.keys[*parent.path, value] = place

    # -- helpers -------------------------------------------------------------------------------

    def at_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None

    def path(self) -> KeyPath:
        if not self.open:
            return ()
        parent = self.open[-1]
        if isinstance(parent.value, list):
            return (*parent.path, len(parent.value))
        return parent.path if parent.key is None else (*parent.path, parent.key)

    def place(self, mark: yaml.Mark | None) -> Place:
        return Place(self.source, mark.line + 1, mark.column + 1) if mark else Place(self.source)

    def problem(self, place: Place, message: str, path: KeyPath = ()) -> None:
        named = tuple(part for part in path if part is not _REFUSED)
        self.document.problems.append(Problem(place, dotted_key(named), message))
        if len(self.document.problems) >= MAX_PROBLEMS:
            raise _Stop

    def refuse(self, mark: yaml.Mark, message: str) -> None:
        """Notes a problem with the value (or key) that stands here and reads on without it."""
        path = self.path()
        self.problem(self.place(mark), message, path)
        if self.at_key():
            self.open[-1].key = _REFUSED
        else:
            self.document.spoiled.add(path)
            self.put(None, mark, 1, 0)

    def stop(self, mark: yaml.Mark | None, message: str) -> None:
        self.problem(self.place(mark), message, self.path())
        raise _Stop


def _copy(value: object) -> Any:
    """Unfolds an alias into data of its own, so that an override of one place leaves the other alone."""
    if isinstance(value, _Anchored):
        return _unshare(value.value)
    return value


def _unshare(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _unshare(item) for key, item in value.items()}
    return [_unshare(item) for item in value] if isinstance(value, list) else value


def scalar(text: str) -> Scalar:
    """The value of an unquoted scalar, by the YAML 1.2 core schema: ``1e-3`` is a number, ``no`` and ``12:30`` are
    text, ``012`` is 12.

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


def in_words(problem: str, context: str) -> str:
    """What is wrong with the YAML, without the words of parsers where it is a common mistake."""
    for complaint, where, words in IN_WORDS:
        if complaint in problem and where in context:
            return words
    return " ".join(part for part in (context, problem) if part)


def decode(data: bytes) -> str:
    """The text of a UTF-8 file.

    Raises:
        ValueError: too long or not UTF-8.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8 text (byte 0x{data[error.start]:02x})") from None


def tab_before(text: str, line: int, column: int) -> bool:
    """Whether a tab stands in the line (from 0) up to the column (from 0)."""
    lines = text.split("\n")
    return line < len(lines) and "\t" in lines[line][: column + 1]
