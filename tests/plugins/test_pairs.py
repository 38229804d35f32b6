"""Two systems in one run: what leaves a client, who covers it, and what the certificates then say."""

import re
from pathlib import Path

import pytest

from tests.support.judge import tried
from tests.support.pairs import SIGNS, Plugin, cell, how_many, page, pairs, plugins, sample, triples

BY_NIGHT = [(Plugin("personal", "jump_start"), Plugin("selection", "oort"))]
"""Pairs in which only the whole search has seen something wrong."""


@pytest.mark.parametrize("pair", [*sample(80), *BY_NIGHT], ids=lambda pair: " + ".join(map(str, pair)))
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
    """The sign of each two plugins on the page."""
    lines = PAGE.read_text(encoding="utf-8").split("```\n")[1].split("\n```")[0].splitlines()
    rows = [Plugin(*line.split()[:2]) for line in lines]
    return {
        (row, name): sign for row, line in zip(rows, lines) for name, sign in zip(rows, line.split()[2], strict=True)
    }


def test_the_page_has_all_pairs_and_of_every_third_plugin_what_becomes_of_them():
    signs = written()
    assert {pair for pair, sign in signs.items() if sign != "·"} == {*pairs(), *((two, one) for one, two in pairs())}
    some = set(plugins()[1::3])
    for one, two in pairs():
        assert signs[one, two] == signs[two, one]
        if {one, two} <= some:
            assert signs[one, two] == SIGNS[cell(one, two).outcome]


def test_the_page_can_be_read_once():
    assert len(PAGE.read_text(encoding="utf-8").split()) <= 2500


def test_pages_say_how_many_pairs_there_are():
    """Where the table is named, its share of what could be combined stands beside, and nowhere that it is all."""
    here, possible, share, families, of = re.search(
        r"are ([\d,]+) of the ([\d,]+) pairs .* \((\d+) %\), of (\d+) of the (\d+) families", how_many()
    ).groups()
    assert how_many() in PAGE.read_text(encoding="utf-8")
    naming = {PAGE.parents[2] / "README.md", *(PAGE.parents[2] / "docs").rglob("*.md")}
    listing = {PAGE, PAGE.parents[1] / "index.md"}
    linked = [path for path in naming - listing if "/pairs.md)" in path.read_text(encoding="utf-8")]
    assert len(linked) >= 2
    for path in linked:
        words = " ".join(path.read_text(encoding="utf-8").split())
        said = f"{share} % of the pairs of plugins of different families, {families} of {of} families"
        assert said in words, path.name
    for path in naming:
        assert not re.search("(every two|all pairs of) plugins", path.read_text(encoding="utf-8"), re.I), path.name


@pytest.mark.slow
def test_the_page_is_made_of_the_registries():
    assert page() == PAGE.read_text(encoding="utf-8"), "python tests/support/pairs.py > docs/reference/pairs.md"
