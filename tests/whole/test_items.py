"""docs/papers/index.md: complete, generated, its numbers from tables, its reasons given, its files there."""

import csv
import re
from pathlib import Path

import pytest

from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def items(monkeypatch):
    return imported(HERE / "results" / "items" / "items.py", monkeypatch)


@pytest.fixture
def rows():
    with open(HERE / "results" / "items" / "items.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_is_what_the_script_prints(items):
    assert "\n".join(items.page()) + "\n" == (HERE / "docs" / "papers" / "index.md").read_text()


def test_every_item_has_a_verdict_its_evidence_and_its_reason(items, rows):
    assert len({(row["source"], row["item"]) for row in rows}) == len(rows) >= 83
    for row in rows:
        assert row["verdict"] in items.VERDICTS and row["source"] in items.SOURCES
        assert row["verdict"] == "reproduced" or row["because"], row["item"]
        assert (HERE / "docs" / row["page"]).exists()
        for path in filter(None, (row["where"], row["evidence"])):
            assert (HERE / path).exists(), path
        if row["verdict"] != "not played":
            assert row["where"] and row["evidence"] and row["command"] and row["ours"], row["item"]


def test_numbers_come_from_the_tables_that_the_items_name(rows):
    """An item whose evidence is a table cites it; whose evidence is a test has no number that a table would have."""
    for row in rows:
        cited = {f"results/{name}.csv" for name in re.findall(r"\{([\w/]+)\|", row["ours"] + row["because"])}
        if row["evidence"].endswith(".csv") and row["verdict"] != "not played" and "diverged" not in row["ours"]:
            assert row["evidence"] in cited, row["item"]
        typed = re.sub(r"\{[^{}]*\}", "", row["ours"])
        assert not re.search(r"\d\.\d\d+ [±(]", typed), f"{row['item']}: an interval is typed"


def test_commands_name_scripts_and_scenarios_that_exist(rows):
    for command in {row["command"] for row in rows if row["command"]}:
        for script in re.findall(r"results/\S+\.py", command):
            assert (HERE / script).exists(), command
        words = command.split()
        if words[:2] in (["simfl", "run"], ["simfl", "theory"]) and not words[2].endswith(".yaml"):
            assert (HERE / "scenarios" / f"{words[2]}.yaml").exists(), command


@pytest.mark.parametrize(
    "place, shown",
    [
        ("paper001/table1|scheme=batch T=4|family|,d", "4,060"),
        ("theorems/necessity|clients=12;k=6;T=3|bound|d", "6"),
        ("fedltn/high_lenet_course|arm=FedAvg|max trained_mean|.1f", "75.9"),
        ("masked_averaging/membership|samples=5000|mean test_accuracy|.1f", "54.1"),
        ("paper001/table4_authors|setting=IID;scheme=partition|minus_random[minus_random_lower,minus_random_upper]|.2f",
         "−3.95 (−5.06 to −2.84)"),
    ],
)  # fmt: skip
def test_places_are_looked_up(items, place, shown):
    assert items.lookup(place) == shown


def test_a_place_is_one_row(items):
    with pytest.raises(LookupError, match="6 rows"):
        items.lookup("paper001/table1||family|d")
    with pytest.raises(LookupError, match="0 rows"):
        items.lookup("paper001/table1|scheme=none|family|d")
