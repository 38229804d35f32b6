"""Two systems in one run: what leaves a client, who covers it, and what the certificates then say."""

import itertools
import re
from pathlib import Path

import pytest

from tests.support.judge import tried
from tests.support.pairs import NOT_COVERED, SIGNS, Plugin, cell, how_many, page, pairs, plugins, sample, triples


@pytest.mark.parametrize("pair", sample(80), ids=lambda pair: " + ".join(map(str, pair)))
def test_a_pair_keeps_what_it_promises(pair, tmp_path):
    found = cell(*pair)
    if found.outcome == "refused":
        assert found.reason and "\n" not in found.reason
        return
    assert not tried(found.scenario, tmp_path, killed=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40))
def test_every_pair_keeps_what_it_promises(first, tmp_path):
    wrong = {}
    for number, pair in enumerate(list(pairs())[first::40]):
        found = cell(*pair)
        if found.outcome != "refused" and (problems := tried(found.scenario, tmp_path / str(number), killed=True)):
            wrong[" + ".join(map(str, pair))] = problems
    assert not wrong


@pytest.mark.parametrize("number", range(4))
def test_a_triple_keeps_what_it_promises(number, tmp_path):
    found = cell(*triples(number))
    assert found.outcome == "refused" or not tried(found.scenario, tmp_path)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "pairs.md"


def written():
    """Of the page's tables: the sign of each two plugins, and the line below the table that names them, with names."""
    signs, notes = {}, {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = section.splitlines()
        one, two = title.split(" and ")
        (_, *names), _, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|")
        for row, *cells in rows:
            signs |= {(Plugin(one, row), Plugin(two, name)): sign for name, sign in zip(names, cells) if sign}
        for line in lines:
            if line.startswith("* "):
                who, _, why = line[2:].partition(": ")
                for rows_and_names in who.split("; "):
                    some, _, others = rows_and_names.partition(" with ")
                    for row, name in itertools.product(some.split(", "), others.split(", ")):
                        named = why.replace(f"*{one}*", row).replace(f"*{two}*", name)
                        notes[one, two, f"{row} + {name}"] = named.removeprefix(NOT_COVERED)
    return signs, notes


def test_the_page_has_all_pairs_and_of_every_third_plugin_what_becomes_of_them():
    signs, notes = written()
    assert signs.keys() == set(pairs())
    some = set(plugins()[1::3])
    for one, two in signs:
        if {one, two} <= some:
            found = cell(one, two)
            assert signs[one, two] == SIGNS[found.outcome]
            assert notes.get((one.family, two.family, f"{one.name} + {two.name}"), "") == found.reason


def test_pages_say_how_many_pairs_there_are():
    """Where the table is named, its share of what could be combined stands beside, and nowhere that it is all."""
    here, possible, share, families, of = re.search(
        r"are ([\d,]+) of the ([\d,]+) pairs .* \((\d+) %\), of (\d+) of the (\d+) families", how_many()
    ).groups()
    assert how_many() in PAGE.read_text(encoding="utf-8")
    naming = {PAGE.parents[2] / "README.md", *(PAGE.parents[2] / "docs").rglob("*.md")}
    listing = {PAGE, PAGE.parents[1] / "index.md"}
    linked = [path for path in naming - listing if "/pairs.md)" in path.read_text(encoding="utf-8")]
    assert len(linked) >= 5
    for path in linked:
        words = " ".join(path.read_text(encoding="utf-8").split())
        said = f"{share} % of the pairs of plugins of different families, {families} of {of} families"
        assert said in words, path.name
    for path in naming:
        assert not re.search("(every two|all pairs of) plugins", path.read_text(encoding="utf-8"), re.I), path.name


@pytest.mark.slow
def test_the_page_is_made_of_the_registries():
    assert page() == PAGE.read_text(encoding="utf-8"), "python tests/support/pairs.py > docs/reference/pairs.md"
