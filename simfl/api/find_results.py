"""Results by what ``simfl ls`` shows of them: the name that a user gave, or the first digits of the digest."""

from collections.abc import Iterator
from pathlib import Path

from simfl.core.errors import SimflError, suggestion
from simfl.results.file_names import BEGUN, FAILURE, SCENARIO, SUMMARY, is_swept
from simfl.results.notes import read_notes

MARKS = (SCENARIO, SUMMARY, BEGUN, FAILURE)
"""A folder with one of these holds a run."""

MIN_DIGITS = 4
"""Of a digest, to stand for it."""

SHOWN = 4


class NoResultsError(SimflError):
    """Nothing in a folder of results is called so (exit 2)."""


def holds_results(folder: Path) -> bool:
    """Whether a folder holds a run, a sweep or a comparison, sound or not."""
    return is_swept(folder) or any((folder / mark).exists() for mark in MARKS)


def results_folders(root: Path) -> Iterator[Path]:
    """Every folder of results below the root, or of one scenario; hidden ones are none."""
    for folder in (root, *root.glob("*/"), *root.glob("*/*/")):
        parts = folder.relative_to(root).parts
        if not any(part.startswith(".") for part in parts) and holds_results(folder):
            yield folder


def digest_of(folder: Path) -> str:
    """The digest of the results in a folder, by its name."""
    return folder.name.rpartition("-")[2]


def find_results(text: str, root: Path) -> Path:
    """The folder that a user means: by its path, by the name of the run, or by the first digits of its digest.

    Raises:
        NoResultsError: there is none.
        SimflError: there are several.
    """
    if Path(text).exists() or Path(text).is_symlink():
        return Path(text)
    names: set[str] = set()
    matches = []
    for folder in results_folders(root):
        try:
            name = read_notes(folder).name
        except SimflError:  # its notes are damaged, it has its digest
            name = ""
        names |= {name} - {""}
        if (
            name == text
            or len(text) >= MIN_DIGITS
            and text in (folder.name[: len(text)], digest_of(folder)[: len(text)])
        ):
            matches.append(folder)
    if len(matches) > 1:
        some = ", ".join(map(str, sorted(matches)[:SHOWN])) + (", ..." if len(matches) > SHOWN else "")
        raise SimflError(f"{text}: {len(matches)} folders of results are meant by that: {some}")
    if not matches:
        if text and next(results_folders(root / text), None) is not None:
            raise NoResultsError(f"{text}: is the scenario of several results, which simfl ls {root / text} lists")
        raise NoResultsError(f"{text}: no such run, sweep or comparison in {root}{suggestion(text, names)}")
    return matches[0]
