"""Tables of text as people have them: the one place that knows separators, encodings, compression, comments and gaps.

Cells stand between commas, semicolons, tabs, bars or blanks. The text is UTF-8, UTF-16 with a mark, or else Latin-1; a
file whose name ends in .gz, .bz2 or .xz is inflated. Lines at the head that begin with #, % or // are comments, the
last of which is the header if it has a name for each cell of a line of numbers below it.
"""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

from simfl.core.errors import ScenarioError, SimflError
from simfl.core.json_data import number_of
from simfl.core.storage.disk import open_regular

MARKS = ",;\t|"
"""What separates cells, besides blanks."""

MISSING = ("", "-", "NA", "N/A", "NaN", "nan", "na", "n/a", "null", "NULL", "None")
"""Cells without a value."""

COMMENTS = ("#", "%", "//")

MAX_LINE = 2**24
"""Bytes of a line."""

MAX_BYTES = 64 * 2**20
MAX_CELL = 200
MAX_CELLS = 20_000_000

EXPANSION, HARMLESS = 100, 2**26
"""A compressed table may be so many times its file's size, and so many bytes in any case: real ones are 5 to 50."""

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What damaged or unreadable files raise."""


class Dialect(NamedTuple):
    """How a table is written.

    Attributes:
        separator: of cells; " " stands for any number of blanks.
        encoding: as Python calls it.
        skipped: lines before the header, or before the first row where a comment is the header.
        header: the cells of the first line, or of the comment that names them; none where the file is empty.
        commented: the header stands in a comment, so that the first line below it is a row.
    """

    separator: str
    encoding: str
    skipped: int
    header: tuple[str, ...]
    commented: bool

    @property
    def note(self) -> str:
        """In words, what is not UTF-8 between commas."""
        names = {"\t": "tabs", " ": "blanks"}
        marks = [] if self.separator == "," else [f"cells between {names.get(self.separator, self.separator)}"]
        return ", ".join(marks + ([] if self.encoding == "utf-8-sig" else [f"read as {self.encoding}"]))


def is_number(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or comma."""
    return number_of(cell.strip().replace(",", "."), None) is not None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of an ordinary file, inflated where its name says so.

    Raises:
        OSError: it cannot be read, or is no ordinary file.
    """
    with open_regular(path) as file:
        opener = OPENERS.get(path.suffix.lower())
        yield file if opener is None else opener(file, "rb")


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """The text of such a file."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def dialect_of(path: Path) -> Dialect:
    """How a table is written, after a look at all of its bytes.

    Raises:
        SimflError: a line is so long that it would fill the memory, or the file inflates to more than any table does.
        OSError, EOFError, LZMAError, zlib.error: it cannot be read.
    """
    encoding = _encoding(path)
    with open_text(path, encoding) as text:
        lines, skipped, comment = list[str](), 0, ""
        for line in iter(lambda: text.readline(MAX_LINE), ""):
            if not lines and (not line.strip() or line.lstrip().startswith(COMMENTS)):
                skipped, comment = skipped + 1, line if line.strip() else comment
                continue
            lines += [line] if line.strip() else []
            if len(lines) == 20:
                break
    if not lines:
        return Dialect(",", encoding, skipped, (), False)
    separator = max(f"{MARKS} ", key=lambda mark: _fitness(lines, mark))
    header, named = split(lines[0], separator), split(comment.strip().lstrip("#%/ "), separator)
    if len(header) == len(named) > 1 and all(map(is_number, header)) and not any(map(is_number, named)):
        return Dialect(separator, encoding, skipped, tuple(named), True)
    return Dialect(separator, encoding, skipped, tuple(header), False)


def split(line: str, separator: str) -> list[str]:
    """The cells of a line."""
    if separator == " ":
        return next(csv.reader([" ".join(line.split())], delimiter=" "), [])
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


def _fitness(lines: list[str], mark: str) -> tuple[float, ...]:
    """How well a mark separates the first lines: into several cells, as many in each and all of them numbers but for
    the header's; rather no blank; into as many cells as possible.
    """
    try:
        rows = [split(line, mark) for line in lines]
    except csv.Error:  # a cell as long as a line of many cells between other marks
        return False, False, False, False, 0, 0
    even = len({len(row) for row in rows}) == 1
    numbers = all(is_number(cell) or cell in MISSING for row in rows[1:] or rows for cell in row)
    return len(rows[0]) > 1, even and numbers, mark != " ", even, len(rows[0]), -MARKS.find(mark)


def _encoding(path: Path) -> str:
    """The encoding of a text; lines are measured on the way."""
    with open_bytes(path) as file:
        start = file.read(2**12)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in start:
            raise SimflError(f"{path}: is no text; save a spreadsheet as CSV")
        decoder, is_utf8, length, number, size = codecs.getincrementaldecoder("utf-8")(), True, 0, 1, 0
        most = max(EXPANSION * path.stat().st_size, HARMLESS)
        block = start
        while block:
            size += len(block)
            if size > most:
                why = f"of more than {EXPANSION} times its bytes; if that is right, unpack it first"
                raise SimflError(f"{path}: is compressed text {why}")
            try:
                is_utf8 and decoder.decode(block)
            except UnicodeDecodeError:
                is_utf8 = False
            for i, part in enumerate(block.split(b"\n") if length + len(block) > MAX_LINE else ()):
                length = length + len(part) if i == 0 else len(part)
                if length > MAX_LINE:
                    raise SimflError(f"{path}:{number + i}: a line of more than {MAX_LINE} bytes")
            number += block.count(b"\n")
            length = len(block) - block.rindex(b"\n") - 1 if b"\n" in block else length + len(block)
            block = file.read(2**20)
    return "utf-8-sig" if is_utf8 else "latin-1"


def _most_cells(path: Path, separator: str) -> int:
    """The marks that part cells and lines, of which a file has as many as cells."""
    with open_bytes(path) as file:
        return sum(
            block.count(separator.encode()) + block.count(b"\n") for block in iter(lambda: file.read(2**20), b"")
        )


def csv_rows(path: Path, key: str) -> list[tuple[str, list[str]]]:
    """The rows of :func:`iterate_rows`."""
    return list(iterate_rows(path, key))


def iterate_rows(path: Path, key: str) -> Iterator[tuple[str, list[str]]]:
    """The header and lines of a table that are not blank: ("file:line", stripped cells, "" where there is no value).

    Raises:
        ScenarioError: the file cannot be read, has more than 64 MiB or 20 million cells, or is no such text.
    """
    at, missing = path.name, frozenset(MISSING)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ScenarioError(key, f"{path.name}: larger than {MAX_BYTES} bytes")
        dialect = dialect_of(path)
        if _most_cells(path, dialect.separator) > MAX_CELLS:
            raise ScenarioError(key, f"{path.name}: more than the {MAX_CELLS:,} cells that are taken")
        if dialect.commented:
            yield f"{path.name}:{dialect.skipped}", list(dialect.header)
        with open_text(path, dialect.encoding) as text:
            for _ in range(dialect.skipped):
                text.readline()
            blank = dialect.separator == " "
            lines = (" ".join(line.split()) + "\n" for line in text) if blank else text
            reader = csv.reader(lines, delimiter=dialect.separator, skipinitialspace=True)
            for row in reader:
                at = f"{path.name}:{dialect.skipped + reader.line_num}"
                if not any(map(str.strip, row)):
                    continue
                whole = "".join(row)
                if " " in whole or not whole.isprintable():
                    row = [word.strip() for word in row]
                    whole = "".join(row)
                if not whole.isprintable() or max(map(len, row)) > MAX_CELL:
                    why = f"a value has control characters or more than {MAX_CELL} characters"
                    raise ScenarioError(key, f"{at}: {why}")
                yield at, row if missing.isdisjoint(row) else ["" if cell in missing else cell for cell in row]
    except csv.Error as error:
        raise ScenarioError(key, f"{at}: {error}") from None
    except (*UNREADABLE, UnicodeError) as error:
        raise ScenarioError(key, f"{at}: {getattr(error, 'strerror', None) or error}") from None
    except ScenarioError:
        raise
    except SimflError as error:
        raise ScenarioError(key, str(error).replace(f"{path}", path.name, 1)) from None
