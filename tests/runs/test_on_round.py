"""``on_round``: a row a round while the run is run; nothing it does changes a result, and what it raises comes out."""

import csv

import numpy as np
import pytest
import torch

import simfl
from simfl.results.run_files import round_row
from tests.support.kills import files, killed_at

SMALL = {"training.rounds": 7, "learning.evaluate.every": 2}


@pytest.fixture(scope="module", params=["quickstart", "fedbuff"])
def scenario(request):
    return simfl.load(request.param, SMALL)


@pytest.fixture(scope="module")
def plain(scenario, tmp_path_factory):
    return simfl.run(scenario, out=tmp_path_factory.mktemp("plain"))


def table(result):
    with open(result.path / "rounds.csv", newline="") as file:
        return [{key: float(text) if text else None for key, text in row.items()} for row in csv.DictReader(file)]


def without_privacy(rows):
    return [{key: value for key, value in row.items() if not key.startswith("privacy")} for row in rows]


def test_a_row_a_round_as_the_table_has_it(scenario, plain, tmp_path):
    rows = []

    def see(row):
        (folder,) = tmp_path.glob("*/*/")
        assert not (folder / "summary.json").exists()  # the run goes on
        on_disk = (folder / "rounds.csv.part").read_text().splitlines()
        assert len(on_disk) == len(rows) + 2  # the header, the earlier rounds, this one
        rows.append(row)

    result = simfl.run(scenario, out=tmp_path, on_round=see)
    assert [row["round"] for row in rows] == list(range(7))
    assert without_privacy(rows) == without_privacy(table(plain))
    assert {row["privacy_weak_lower"] for row in rows} == {None}
    assert isinstance(rows[0]["cardinality"], int) and rows[0]["test_accuracy"] is None
    again = []
    simfl.run(scenario, out=tmp_path, on_round=again.append)  # is complete: from the table, with all columns
    assert again == table(result)


def test_nothing_that_it_does_changes_a_byte(scenario, plain, tmp_path):
    def disturb(row):
        row.clear()
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)
        torch.rand(3)

    result = simfl.run(scenario, out=tmp_path, on_round=disturb)
    assert files(result.path) == files(plain.path)


class TwoArguments(Exception):
    """simpy copies exceptions by their arguments; this one would not survive it."""

    def __init__(self, one, two):
        super().__init__("only one")


@pytest.mark.parametrize("at", [0, 3, 6])
@pytest.mark.parametrize("raised", [simfl.StopRun("enough"), TwoArguments(1, 2), KeyboardInterrupt()], ids=repr)
def test_what_it_raises_comes_out_and_the_run_goes_on_later(scenario, plain, tmp_path, at, raised):
    first, second = [], []

    def stop(row):
        first.append(row)
        if row["round"] == at:
            raise raised

    with pytest.raises(type(raised)) as caught:
        simfl.run(scenario, out=tmp_path, on_round=stop)
    assert caught.value is raised and len(first) == at + 1
    (folder,) = tmp_path.glob("*/*/")
    assert not (folder / "summary.json").exists()
    kept = {int(path.stem) for path in folder.glob("checkpoint/*.ckpt")}
    assert max(kept, default=0) == (at + 1 if at < 6 else 6)  # after its round; the last one is run again
    result = simfl.run(scenario, out=tmp_path, on_round=second.append)
    assert [row["round"] for row in second] == list(range(7)) and second[: at + 1] == first
    assert files(result.path) == files(plain.path)


@pytest.mark.parametrize("step", [10, 45, 90])
def test_after_a_kill_every_round_is_told_once(scenario, plain, tmp_path, step):
    assert killed_at(step, lambda: simfl.run(scenario, out=tmp_path, on_round=lambda row: None))
    rows = []
    result = simfl.run(scenario, out=tmp_path, on_round=rows.append)
    assert without_privacy(rows) == without_privacy(table(plain))
    assert files(result.path) == files(plain.path)


def test_cells_are_numbers():
    names = ["a", "b", "c", "d", "e", "f"]
    row = round_row(names, ["", None, "3", 0.5, "nan", np.float64(0.1)])
    assert (row["a"], row["b"], row["c"], row["d"], row["f"]) == (None, None, 3, 0.5, 0.1)
    assert row["e"] != row["e"] and isinstance(row["c"], int)
