"""The runner of the reliability bars: no empty cell, what fails is told and can be played again."""

import json
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "benchmarks"))

import reliability  # noqa: E402

from tests.reliability.check import Check, NotMeasured, Outcome, Plan  # noqa: E402
from tests.reliability.code import MODULES  # noqa: E402


def test_there_is_a_check_of_every_bar_in_every_size():
    assert len({check.name for check in reliability.CHECKS}) == len(reliability.CHECKS)
    for place in (1, 2):
        assert {check.bar for check in reliability.CHECKS if check.counts[place]} == set(range(1, 13))
    assert all(check.counts[0] <= check.counts[1] <= check.counts[2] > 0 for check in reliability.CHECKS)


def test_the_table_has_a_row_of_every_check():
    text = (HERE / "results/reliability/README.md").read_text()
    rows = [tuple(map(str.strip, row.split("|")[1:3])) for row in re.findall(r"^\| \d+ \|.*$", text, re.M)]
    assert rows == [(str(check.bar), check.name) for check in reliability.CHECKS]
    assert not re.search(r"\| *\|", text), "an empty cell"


def test_some_checks_in_the_smallest_size(tmp_path, capsys):
    names = ["cache", "overrides", "source", "arithmetic", "guarantees"]
    assert reliability.main(["--size", "smoke", "--only", *names, "--json", str(tmp_path / "figures.json")]) == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [figure["check"] for figure in figures] == names
    assert all(figure["failed"] == "0" and all(figure.values()) for figure in figures)
    assert [figure["how many"] for figure in figures] == [
        "5 damages", "100 scenarios", f"{len(MODULES)} modules", "100,000 pairs", "3 matrices"
    ]  # fmt: skip
    said = capsys.readouterr().out
    assert "| 9 | guarantees |" in said and ", seed 0.\n" in said
    assert [figure["at most"] for figure in figures] == ["–", "1 in 33", "–", "1 in 33,333", "–"]


def odd(plan):
    def case(number):
        if number == 3:
            raise TypeError("oh")
        return Outcome(("a", "b") if number == 5 else (), {"kills": 2, "runs": 1})

    return case


def missing(plan):
    raise NotMeasured("no such machine")


def test_what_fails_or_crashes_is_counted_and_told_with_its_command(tmp_path, capsys):
    found = Check(2, "odd", "it", "kills", (1, 12, 12), odd).played(Plan(tmp_path / "odd", 0, "five-minutes"))
    assert (found.done, found.failed, dict(found.tally)) == (13, 3, {"runs": 6})
    said = capsys.readouterr().out
    assert "--only odd --case 3" in said and "TypeError: oh" in said and "--only odd --case 5" in said
    again = Check(2, "odd", "it", "kills", (1, 12, 12), odd).played(Plan(tmp_path / "again", 0, "smoke"), only=5)
    assert (again.done, again.failed) == (2, 2) and again.cells[3:7] == ("2 kills", "2", "–", "1 runs")


def test_what_cannot_be_measured_says_why(tmp_path):
    found = Check(2, "odd", "it", "kills", (1, 1, 1), missing).played(Plan(tmp_path / "odd", 0, "smoke"))
    assert found.cells[3:7] == ("not measured", "–", "–", "no such machine") and not found.failed
    none = Check(2, "odd", "it", "kills", (0, 1, 9), missing).played(Plan(tmp_path / "none", 0, "smoke"))
    assert none.cells[6] == "not in the size smoke; 9 in the nightly one"


def test_a_failure_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(reliability, "CHECKS", (Check(2, "odd", "it", "kills", (1, 12, 12), odd),))
    assert reliability.main([]) == 1
    with pytest.raises(SystemExit) as ended:
        reliability.main(["--only", "even"])
    assert ended.value.code == 2 and "no check 'even'; there are odd" in capsys.readouterr().err
