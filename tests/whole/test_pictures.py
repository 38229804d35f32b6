"""The pictures of the documentation are drawn from numbers that simfl still computes, and these numbers are right."""

from pathlib import Path

import numpy as np
import pandas
import pytest

from tests.whole.test_scripts import imported

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
DOLLAR = '"#DejaVuSans-7"'
"""The dollar sign by its place in the font; it is visible where a formula is not drawn as one."""


def stored(name):
    return pandas.read_csv(PICTURES / f"{name}.csv")


def test_no_picture_shows_the_source_of_a_formula():
    shown = [path for folder in ("results", "docs") for path in (ROOT / folder).rglob("*.svg")]
    assert len(shown) > 20
    assert not [path for path in shown if DOLLAR in (text := path.read_text()) or "<text>$" in text]


@pytest.mark.parametrize("name", ["sums", "notions", "policies", "guarantees"])
def test_a_picture_is_current(name, monkeypatch):
    table = imported(PICTURES / f"{name}.py", monkeypatch).compute()
    pandas.testing.assert_frame_equal(table, stored(name), check_dtype=False)
    assert (PICTURES / f"{name}.svg").stat().st_size > 5000


@pytest.mark.parametrize("name", ["synchronous", "buffered"])
def test_a_picture_of_the_clock_is_current(name, monkeypatch):
    table = imported(PICTURES / "clock.py", monkeypatch).compute(name)
    pandas.testing.assert_frame_equal(table, stored(name), check_dtype=False)
    assert (PICTURES / f"{name}.svg").stat().st_size > 5000


def test_the_server_learns_the_sum():
    table = stored("sums")
    assert table["mask"].sum() % 100 == 0 and table["update"].sum() == 54 == table["sent"].sum() % 100
    assert (table["sent"] == (table["update"] + table["mask"]) % 100).all()


def test_the_combinations_leave_what_the_picture_says(monkeypatch):
    """The printed words, computed again with numpy."""
    matrices = imported(PICTURES / "notions.py", monkeypatch).MATRICES
    for row in stored("notions").itertuples():
        left = vector(row.combination, 3) @ np.array(matrices[row.matrix])
        assert left.tolist() == vector(row.left, 4).tolist()
        assert np.abs(left).sum() / np.abs(left).max() == row.semi_strong
        assert np.count_nonzero(left) >= row.weak >= row.semi_strong >= row.strong


def vector(words, length):
    found = np.zeros(length)
    for term in words.replace(" - ", " + minus ").split(" + "):
        sign = -1 if term.startswith("minus ") else 1
        factor, _, name = term.removeprefix("minus ").rpartition(" × ")
        found[int(name.split()[1])] = sign * float(factor or 1)
    return found


def test_the_picture_of_fedbuff_has_the_staleness_of_the_run(monkeypatch, tmp_path):
    """Mean staleness of each round from the picture's numbers, beside the run's own column."""
    import simfl

    clock = imported(PICTURES / "clock.py", monkeypatch)
    rounds = simfl.run(simfl.load({"name": "b", **clock.COMMON, **clock.SCENARIOS["buffered"]}), out=tmp_path).rounds
    uploads = stored("buffered").dropna(subset="staleness")
    number = np.searchsorted(rounds["time_s"].to_numpy(), uploads["end_s"].to_numpy() - 1e-5)
    assert uploads.groupby(number)["staleness"].mean().tolist() == rounds["staleness_mean"].tolist()
