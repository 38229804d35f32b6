"""What users write about a run or a sweep: a name, tags and a note, in ``notes.json`` of its folder.

The file belongs to no digest: results, and which run is complete, do not depend on it.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from simfl.core.errors import SimflError, printable
from simfl.results.sealed_files import read_sealed, write_sealed

NOTES = "notes.json"

MAX_NAME, MAX_TAG, MAX_NOTE = 100, 50, 5000
"""Characters."""


@dataclass(frozen=True)
class Notes:
    """About a run, a sweep or a comparison.

    Attributes:
        name: one line, or nothing.
        tags: words, sorted.
        note: text, or nothing.

    Raises:
        SimflError: a name of several lines, a tag with blanks or commas, or a text that is too long.
    """

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", tuple(sorted({_checked_tag(tag) for tag in self.tags})))
        if not isinstance(self.name, str) or len(self.name) > MAX_NAME or not self.name.isprintable():
            raise SimflError(f"name {self.name!r}: a name is one line of at most {MAX_NAME} characters")
        if not isinstance(self.note, str) or len(self.note) > MAX_NOTE:
            raise SimflError(f"note: at most {MAX_NOTE} characters")

    def __bool__(self) -> bool:
        return bool(self.name or self.tags or self.note)

    def merge(self, other: "Notes") -> "Notes":
        """With the name and the note of another where it has them, and the tags of both."""
        return Notes(other.name or self.name, (*self.tags, *other.tags), other.note or self.note)

    def to_text(self) -> str:
        """Lines ``name: ...``, ``tags: ...`` and ``note: ...``, without those that say nothing."""
        lines = {"name": self.name, "tags": ", ".join(self.tags), "note": self.note}
        return "\n".join(f"{key}: {printable(text)}" for key, text in lines.items() if text)


def _checked_tag(tag: str) -> str:
    if not isinstance(tag, str) or not 0 < len(tag) <= MAX_TAG or not tag.isprintable() or set(tag) & {" ", ","}:
        raise SimflError(f"tag {tag!r}: a tag is one word of at most {MAX_TAG} characters, without commas")
    return tag


def texts_of(value: Iterable[str]) -> tuple[str, ...]:
    """Several texts, or one alone."""
    return (value,) if isinstance(value, str) else tuple(value)


def read_notes(folder: Path) -> Notes:
    """What is written about the results in a folder.

    Raises:
        IntegrityError: ``notes.json`` is damaged.
    """
    document = read_sealed(folder / NOTES) or {}
    return Notes(document.get("name", ""), tuple(document.get("tags", ())), document.get("note", ""))


def write_notes(folder: Path, notes: Notes) -> None:
    """Replaces them; nothing is left of the file where there is nothing to say."""
    if notes:
        write_sealed(folder / NOTES, asdict(notes))
    else:
        (folder / NOTES).unlink(missing_ok=True)


def add_notes(folder: Path, notes: Notes | None) -> None:
    """Adds tags, and replaces name and note by those that are given.

    Raises:
        IntegrityError: ``notes.json`` is damaged.
    """
    if notes:
        write_notes(folder, read_notes(folder).merge(notes))
