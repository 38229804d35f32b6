"""Typical mistakes of newcomers, and the words that one line of the answer must contain.

The lists were written from README and docs alone, before anybody looked at the code (but for ``overrides``, which is
older); ``trial`` is what a trial of the entrance brought.
``newer_commands`` was written from the pages of the commands and keys that it is about, before any of it was tried.
Words are compared without regard to case; ``a|b`` means that either will do. All commands are typed in a folder with
the files of ``BASE`` and with ``results/fl/DONE``, ``OPEN`` and ``DAMAGED``: a finished, an interrupted and a damaged
run.
"""

from dataclasses import dataclass, field

BASE = {
    "fl.yaml": """\
clients: 12
network: {name: star, latency_s: 0.1}
devices: {availability: {name: bernoulli, dropout: 0.1}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 2, local_epochs: 1, batch_size: 16, learning_rate: 0.1}
learning: {data: digits, partition: iid, model: logistic}
""",
}


@dataclass(frozen=True)
class Mistake:
    """What somebody types after ``simfl``, the words that show the right way, and the files that it needs."""

    command: str
    words: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    code: int = 2


def typed(command: str, *words: str, code: int = 2, **files: str) -> Mistake:
    """A command; of ``files`` the name ``a__csv`` stands for ``a.csv``."""
    return Mistake(command, words, {name.replace("__", "."): text for name, text in files.items()}, code)


def given(override: str, *words: str, code: int = 2) -> Mistake:
    """Overrides of ``fl.yaml``, as words of a shell."""
    return Mistake(f"validate fl.yaml {override}", words, {}, code)


def written(text: str, *words: str, code: int = 2) -> Mistake:
    """A scenario file ``mine.yaml``."""
    return Mistake("validate mine.yaml", words, {"mine.yaml": text}, code)


@dataclass(frozen=True)
class Script:
    """A statement in Python, with ``simfl``, ``np`` and ``pd`` at hand, and words of its exception's one line."""

    code: str
    words: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)


def scripted(code: str, *words: str, **files: str) -> Script:
    """A statement in Python; of ``files`` the name ``a__csv`` stands for ``a.csv``."""
    return Script(code, words, {name.replace("__", "."): text for name, text in files.items()})
