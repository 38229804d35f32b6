"""Studies on a small size: their tables are what the runs' own files say."""

import sys

import numpy as np
import pandas
import pytest

import simfl
from tests.whole.test_scripts import HERE, imported


@pytest.fixture
def played(monkeypatch, tmp_path):
    """The CSV of a script that runs with these words; ``change`` is given the script first."""

    def play(name, words, table, change):
        script = imported(HERE / "results" / f"{name}.py", monkeypatch)
        monkeypatch.setattr(script, "HERE", tmp_path)
        change(script)
        monkeypatch.setattr(sys, "argv", [name, *words, "--out", str(tmp_path / "out")])
        script.main()
        return pandas.read_csv(tmp_path / f"{table}.csv")

    return play


def digits(script):
    """Masked averaging of logistic regression on the digits."""
    tables = {name: (cases, {"learning.data": "digits", "learning.model": "logistic"} | changes)
              for name, (cases, changes) in script.TABLES.items()}  # fmt: skip
    script.TABLES = tables


@pytest.mark.parametrize(("table", "rows", "key"), [("clients", 2, "clients"), ("grid", 2, "training.learning_rate"),
                                                    ("few_epochs", 2, "training.local_epochs")])  # fmt: skip
def test_rows_of_masked_averaging_are_means_of_their_runs(played, tmp_path, table, rows, key):
    words = [table, "--rounds", "4", "--rates", f"{rows}", "--seeds", "2", "--arms", "mean", "masked"]
    found = played("masked_averaging/masked_averaging", words, table, digits)
    assert len(found) == rows and (found.seeds == 2).all() and (found["rounds"] == 4).all()
    accuracies = {}
    for folder in (tmp_path / "out" / "masked_averaging").iterdir():
        result = simfl.open(folder)
        view = result.scenario
        setting = {"clients": view.clients, "training.learning_rate": view.training.learning_rate,
                   "training.local_epochs": view.training.local_epochs}  # fmt: skip
        accuracy = 100 * result.rounds.test_accuracy.dropna().tail(5).mean()
        accuracies.setdefault((view.training.aggregate.name, setting[key]), []).append(accuracy)
    assert len(accuracies) == 2 * rows and all(len(each) == 2 for each in accuracies.values())
    for row in found.to_dict("records"):
        for arm in ("mean", "masked"):
            assert row[arm] == pytest.approx(np.mean(accuracies[arm, row[key.removeprefix("training.")]]), rel=1e-4)
        assert row["masked_mean"] == pytest.approx(row["masked"] - row["mean"], abs=2e-3)


def test_c_l_in_units_of_the_update(played, tmp_path):
    """Root mean squares by hand, from the model before the first round."""

    def small(script):
        script.CHANGES |= {"learning.data": "digits", "training.rounds": "4", "training.decay_at": "[]",
                           "learning.evaluate": "2", "learning.model": "{name: mlp, hidden: [8]}"}  # fmt: skip
        script.EXPONENTS = (16, 4)

    found = played("basecagg/cifar10", ["--seeds", "1"], "cifar10", small).set_index("exponent", drop=False)
    assert found.secagg.tolist() == ["FedBuff", "BASecAgg", "BASecAgg"]
    plain = [
        r
        for r in map(simfl.open, (tmp_path / "out" / "paper003_basecagg").iterdir())
        if r.scenario.secagg.name == "plain"
    ]
    assert len(plain) == 1
    from simfl.core.types import Job
    from simfl.runs.run import build

    learner = build(plain[0].scenario).learner
    total, count = 0.0, 0
    for client in range(10):
        learner.put(0, learner.initial())
        delta = learner.train([Job.of(0, client, 0, 0.0)]).deltas[0].astype(float)
        total, count = total + float(delta @ delta), count + len(delta)
    for exponent in (16, 4):
        row = found.loc[exponent]
        assert row.first_units == pytest.approx(2**exponent * (total / count) ** 0.5, rel=1e-4)
        assert row.last_units != row.first_units and row.wrapped == 0
    assert abs(found.test_accuracy[16] - found.test_accuracy.iloc[0]) < 1
