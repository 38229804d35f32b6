"""Names are the field's words (docs/reference/glossary.md), and no name stands for two things."""

from pathlib import Path

import pytest

from tests.support.names import HOME, ambiguous, names, refused

SEEN_BY_USERS = {
    ("deployment", "variable floor"),  # --floor of simfl audit, as an argument
    ("results", "variable asked"),  # a column of phases.csv
    ("papers", "variable variant"),  # a key of oblivious
}
"""Refused words that are part of what users write or read, by package."""
SAME_SUBJECT = {"api", "cli", "plugins", "figures"}
"""Folders whose modules are called like the command, the family or the figure that they belong to."""


def modules():
    return sorted(HOME.rglob("*.py"))


def test_no_name_is_a_refused_word():
    wrong = []
    for path in modules():
        package = path.relative_to(HOME).parts[0]
        lines = refused(iter([path]))
        wrong += [
            line for line in lines if (package, " ".join(line.split(": ")[1].split(" ")[:2])) not in SEEN_BY_USERS
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "word",
    [
        "found = 1",
        "def told(): ...",
        "def sealed(x): ...",
        "class Conversation: ...",
        "a.heard = 2",
        "def f(given): ...",
    ],
)
def test_refused_words_are_seen(word, tmp_path):
    path = tmp_path / "simfl" / "some.py"
    path.parent.mkdir()
    path.write_text(f"a = 1\n{word}\n")
    assert len([name for name in names(path) if name.kind != "module"]) >= 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.names.HOME", path.parent)
        assert len(refused([path])) == 1


def test_no_public_class_stands_twice():
    assert [line for line in ambiguous(modules()) if line.startswith("class")] == []


def test_modules_with_one_name_are_about_one_thing():
    """A command, a family's face or a figure is called like its subject; a plugin's module like the plugin."""
    from simfl.core.registration.family_index import FAMILIES

    plugins = {name for registry in FAMILIES.values() for name in registry}
    for line in ambiguous(modules()):
        kind, rest = line.split(" ", 1)
        name, places = rest.split(": ")
        if kind == "module" and name not in plugins:
            own = [place for place in places.split(", ") if not SAME_SUBJECT & set(Path(place).parts[:-1])]
            assert len(own) <= 1, line


def test_no_class_is_called_like_a_test():
    """pytest would collect it wherever a test imports it."""
    assert not [name for path in modules() for name in names(path) if name.kind == "class" and name.name[:4] == "Test"]
