"""A scenario's text before it is YAML: its size, its encoding, its characters."""

import re

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
