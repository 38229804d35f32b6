"""Studies on a small size: their tables are what the runs' own files say."""

import sys
from runpy import run_path

import numpy as np
import pandas
import pytest

import simfl
from simfl.core.errors import ScenarioError
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


def test_few_samples_follow_a_dirichlet_distribution():
    """Pairs of a client's samples are of one class with probability (beta + 1) / (classes * beta + 1)."""
    from simfl.core.registration.family_index import undone
    from simfl.learning.data.base import Dataset

    with undone():
        plugin = run_path(str(HERE / "results" / "fedltn" / "few_samples.py"))["FewSamples"]
    clients, samples, classes = 2000, 20, 5
    labels = np.repeat(np.arange(classes), 10_000)
    nothing = np.zeros((len(labels), 1), dtype=np.float32)
    data = Dataset(nothing, labels, nothing[:1], labels[:1], ())
    for beta in (0.5, 2.0):
        split = plugin(beta, samples).split(data, clients, np.random.default_rng(3))
        assert np.diff(split.offsets).tolist() == [samples] * clients
        assert len(np.unique(split.indices)) == clients * samples, "no sample is held twice"
        held = labels[split.indices].reshape(clients, samples)
        counts = (held[:, :, None] == np.arange(classes)).sum(axis=1)
        alike = (counts * (counts - 1)).sum(axis=1) / (samples * (samples - 1))
        expected = (beta + 1) / (classes * beta + 1)
        assert abs(alike.mean() - expected) < 4 * alike.std() / clients**0.5
        assert np.ptp(counts.sum(axis=0)) < 0.2 * clients * samples
    with pytest.raises(ScenarioError, match="is too large"):
        plugin(0.5, 100).split(data, clients, np.random.default_rng(3))


def test_the_table_of_dirichlet_clients(played, tmp_path):
    def small(script):
        script.CHANGES |= {"learning.data": "digits", "learning.model": "{name: mlp, hidden: [8]}",
                           "learning.holdout": "{validation: 0.5, test: 0.2}", "learning.evaluate.samples": "10",
                           "training.rounds": "3", "learning.evaluate.every": "1"}  # fmt: skip
        script.ALPHAS, script.SAMPLES = (0.7,), 40
        script.CHOSEN = ("LotteryFL 0.5", "FedLTN 0.5", "FedLTN 0.9")

    found = played("fedltn/dirichlet", ["--seeds", "2"], "dirichlet", small).set_index(["arm", "seed"])
    gaps = pandas.read_csv(tmp_path / "dirichlet_paired.csv").set_index(["arm", "measure"])
    assert (found.best_mean >= found.trained_mean).all() and (found.trained_min <= found.trained_mean).all()
    for folder in (tmp_path / "out" / "fedltn").iterdir():
        result = simfl.open(folder)
        own = pandas.read_csv(folder / "accuracies.csv")
        name = {"fedltn": "FedLTN", "lotteryfl": "LotteryFL"}[result.scenario.training.personal.name]
        row = found.loc[f"{name} {result.scenario.training.personal.target}", result.scenario.seed]
        trained = 100 * own.trained.dropna()
        assert (row.trained_mean, row.trained_min) == pytest.approx((trained.mean(), trained.min()), rel=1e-4)
    by_seed = found.trained_mean.unstack()
    gap = (by_seed.loc["FedLTN 0.9"] - by_seed.loc["LotteryFL 0.5"]).mean()
    assert gaps.difference["FedLTN 0.9", "trained_mean"] == pytest.approx(gap, abs=2e-3)


def test_the_table_of_five_algorithms(played, tmp_path):
    def small(script):
        script.CHANGES |= {"learning.model": "logistic", "training.local_steps": "2"}
        script.DATA, script.PARTITIONS = ("digits",), {"IID": {"learning.partition": "iid"}}

    found = played("masked_averaging/algorithms", ["--rounds", "20"], "algorithms", small).set_index("algorithm")
    assert found.index.tolist() == ["FedAvg", "FedProx", "SCAFFOLD", "FedAdam", "FedYogi", "FedAvg, no momentum"]
    results = list(map(simfl.open, (tmp_path / "out" / "masked_averaging").iterdir()))
    assert len(results) == 12
    for result in results:
        training = result.scenario.training
        if training.client.name == "plain" and training.server_optimiser.name == "sgd" and training.momentum == 0.9:
            curve = 100 * result.rounds.test_accuracy.dropna()
            assert curve.index.tolist() == list(range(1, 20, 2))
            arm = training.aggregate.name
            assert found[arm]["FedAvg"] == pytest.approx(curve.tail(5).mean(), rel=1e-4)
            assert found[f"{arm}_half"]["FedAvg"] == pytest.approx(curve[:5].mean(), rel=1e-4)
    steps = {r.scenario.training.aggregate.masks for r in results if r.scenario.training.aggregate.name == "masked"}
    assert steps == {"update", "step"} and (found.masked_mean - (found.masked - found["mean"])).abs().max() < 2e-3
