"""Two systems in one run: what leaves a client, who covers it, and what the certificates then say."""

from pathlib import Path

import pytest
from judge import gone_on, judged, played
from pairs import cell, page, pairs, sample, triples


@pytest.mark.parametrize("pair", sample(40), ids=lambda pair: " + ".join(map(str, pair)))
def test_a_pair_keeps_what_it_promises(pair, tmp_path):
    found = cell(*pair)
    if found.outcome == "refused":
        assert found.reason and "\n" not in found.reason
        return
    scenario, folder, tape = played(found.scenario, tmp_path / "recorded")
    assert judged(scenario, folder, tape) == []
    again = gone_on(scenario, tmp_path)
    assert (again / "rounds.csv").read_bytes() == (folder / "rounds.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40))
def test_every_pair_keeps_what_it_promises(first, tmp_path):
    wrong = {}
    for number, pair in enumerate(list(pairs())[first::40]):
        found = cell(*pair)
        if found.outcome != "refused":
            out = tmp_path / str(number)
            scenario, folder, tape = played(found.scenario, out / "recorded")
            again = gone_on(scenario, out)
            same = (again / "rounds.csv").read_bytes() == (folder / "rounds.csv").read_bytes()
            if problems := judged(scenario, folder, tape) + ["not the same after a kill"] * (not same):
                wrong[" + ".join(map(str, pair))] = problems
    assert not wrong


@pytest.mark.parametrize("number", range(12))
def test_a_triple_keeps_what_it_promises(number, tmp_path):
    found = cell(*triples(number))
    if found.outcome != "refused":
        assert judged(*played(found.scenario, tmp_path)) == []


def test_the_page_is_made_of_the_registries():
    path = Path(__file__).parent.parent / "docs" / "pairs.md"
    assert page() == path.read_text(encoding="utf-8"), "python tests/pairs.py > docs/pairs.md"
