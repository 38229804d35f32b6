"""Studies on a small size: their tables are what the runs' own files say."""

import sys
from dataclasses import replace
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

import simfl
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.experiments import runner
from simfl.learning.data.generated import Digits
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.whole.test_scripts import HERE, imported


@pytest.fixture
def played(monkeypatch, tmp_path, no_plugins):
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
        script.CHANGES |= {"learning.model": "logistic", "training.local_steps": "2", "learning.evaluate": "1"}
        script.DATA = {"digits": {"learning.data": "digits"}}
        script.TABLES = {"algorithms": (("digits",), ("IID",), tuple(script.ALGORITHMS))}

    words = ["--rounds", "20", "--seeds", "2"]
    found = played("masked_averaging/algorithms", words, "algorithms", small).set_index("algorithm")
    curves = pandas.read_csv(tmp_path / "algorithms_curves.csv")
    names = ["FedAvg", "FedProx", "SCAFFOLD", "FedAdam", "FedYogi", "FedAvg, no momentum", "SCAFFOLD, rate 0.1"]
    assert found.index.tolist() == names and (found.seeds == 2).all()
    results = list(map(simfl.open, (tmp_path / "out" / "masked_averaging").iterdir()))
    assert len(results) == 28
    ours = {"mean": [], "masked": []}
    for result in results:
        training = result.scenario.training
        if training.client.name == "plain" and training.server_optimiser.name == "sgd" and training.momentum == 0.9:
            ours[training.aggregate.name].append(100 * result.rounds.test_accuracy)
    for arm, of_seeds in ours.items():
        curve = sum(of_seeds) / 2
        assert len(of_seeds) == 2 and found[arm]["FedAvg"] == pytest.approx(curve[15:].mean(), rel=1e-4)
        assert found[f"{arm}_half"]["FedAvg"] == pytest.approx(curve[5:10].mean(), rel=1e-4)
        stored = curves[(curves.algorithm == "FedAvg") & (curves.arm == arm)]
        assert stored["round"].tolist() == list(range(1, 21))
        assert stored.accuracy.tolist() == pytest.approx(curve.tolist(), rel=1e-4)
    picture = (tmp_path / "algorithms.svg").read_text()
    assert len(curves) == 7 * 2 * 20 and all(f"<!-- {name} -->" in picture for name in names)
    steps = {r.scenario.training.aggregate.masks for r in results if r.scenario.training.aggregate.name == "masked"}
    assert steps == {"update", "step"} and (found.masked_mean - (found.masked - found["mean"])).abs().max() < 2e-3


def test_coloured_digits_are_told_on_training_samples_too(played, tmp_path):
    """The accuracy on training samples is that of the clients, of each run; the picture has a panel of it."""

    def small(script):
        script.CHANGES |= {"learning.model": "logistic", "training.local_steps": "2"}
        script.COLOURED |= {"learning.data": "digits", "learning.transform": "none",
                            "learning.evaluate": "{every: 1, per_client: true}"}  # fmt: skip
        script.TABLES = {"algorithms_colours": (("colours",), ("IID",), ("FedAvg",))}

    words = ["algorithms_colours", "--rounds", "3", "--seeds", "1"]
    found = played("masked_averaging/algorithms", words, "algorithms_colours_curves", small).set_index("arm")
    for folder in (tmp_path / "out" / "masked_averaging").iterdir():
        result = simfl.open(folder)
        rows = found.loc[result.scenario.training.aggregate.name]
        assert rows.training_accuracy.tolist() == pytest.approx(
            (100 * result.rounds.client_accuracy_mean).tolist(), rel=1e-4
        )
        assert rows.accuracy.tolist() == pytest.approx((100 * result.rounds.test_accuracy).tolist(), rel=1e-4)
    picture = (tmp_path / "algorithms_colours.svg").read_text()
    assert "accuracy on training samples, %" in picture and "test accuracy, %" in picture


def test_two_curves_are_compared_at_the_same_accuracy_on_training_samples(monkeypatch):
    """The mean is at 85 halfway between 80 and 90, where its test accuracy is 65; its value in a dip does not count."""
    drawing = imported(HERE / "results" / "masked_averaging" / "algorithms_drawing.py", monkeypatch)
    points = {"mean": ((80, 60), (90, 70), (82, 30), (92, 74), (91, 72)), "masked": ((80, 60), *[(85, 75)] * 5)}
    rows = [{"algorithm": "FedAvg", "arm": arm, "round": 5 * (n + 1), "training_accuracy": train, "accuracy": test}
            for arm, both in points.items() for n, (train, test) in enumerate(both)]  # fmt: skip
    curves = pandas.DataFrame(rows)
    assert "| FedAvg | 87.0, 85.0 | 61.2, 75.0 | 65.0 |" in drawing.compared_markdown(curves)
    curve = curves[curves.arm == "mean"]
    told = [drawing.as_accurate(curve, accuracy) for accuracy in (80, 90, 91, 92)]
    assert told == [60, 70, 72, 74] and np.isnan([drawing.as_accurate(curve, each) for each in (79, 93)]).all()


def test_a_seed_of_which_one_arm_diverged_is_left_out_of_both(monkeypatch, tmp_path):
    algorithms = imported(HERE / "results" / "masked_averaging" / "algorithms.py", monkeypatch)
    small = {"learning.data": "digits", "learning.model": "logistic", "learning.evaluate": "1",
             "training.rounds": "3", "training.local_steps": "4"}  # fmt: skip
    made = {"mean": [{}, {}, {}], "masked": [{}, {"training.learning_rate": "1e6", "training.weight_decay": "1"}, {}]}
    for arm, changes in made.items():
        scenarios = [runner.scenario(algorithms.SCENARIO, small | {"training.aggregate": arm} | each, seed)
                     for seed, each in enumerate(changes)]  # fmt: skip
        made[arm] = [simfl.run(each, out=tmp_path).path for each in scenarios]
    named = {"data": "digits", "partition": "IID", "algorithm": "FedAvg"}
    row, curves = algorithms.rows_of(named, made, 3)
    assert (row["seeds"], row["diverged"]) == (2, "masked 1")
    for arm, curve in zip(("mean", "masked"), curves, strict=True):
        accuracies = [100 * simfl.open(made[arm][seed]).rounds.test_accuracy for seed in (0, 2)]
        assert curve.accuracy.tolist() == pytest.approx((sum(accuracies) / 2).tolist())
        assert row[arm] == pytest.approx(curve.accuracy.mean()) and row[f"{arm}_half"] == curve.accuracy[0]
    row, curves = algorithms.rows_of(named, {arm: paths[1:2] for arm, paths in made.items()}, 3)
    told = algorithms.markdown(pandas.DataFrame([row]))
    assert not curves and "| digits, IID | FedAvg | 0 (diverged: masked 1) |  |  |  |  |" in told


def test_membership_against_the_mean_and_the_masked_mean(played, tmp_path):
    """Accuracies by the final models on all samples, the attack's from the runs' own summaries."""

    def small(script):
        script.CHANGES |= {"learning.model": "logistic"}
        script.WHOLE, script.ROUNDS = "digits", {5000: (2,), 30: (1, 2)}
        script.BACKENDS = {5000: "auto", 30: "auto"}
        script.Cifar10 = Pictures

    class Pictures:
        def load(self, setting, streams):
            whole = Digits().load(setting, Streams(0))
            return replace(whole, x_train=whole.x_train.reshape(-1, 1, 8, 8), x_test=whole.x_test.reshape(-1, 1, 8, 8))

    found = played("masked_averaging/membership", ["5000", "--seeds", "2"], "membership", small)
    assert found[["arm", "seed"]].values.tolist() == [[arm, s] for arm in ("mean", "masked", "shrunk") for s in (0, 1)]
    both = played("masked_averaging/membership", ["30", "--seeds", "1"], "membership", small)
    assert both[both.samples == 5000].reset_index(drop=True).equals(found), "the other number of samples stays"
    assert both[["rounds", "arm"]].values.tolist()[:6] == [[n, a] for n in (1, 2) for a in ("mean", "masked", "shrunk")]
    whole = Pictures().load(Scenario.load(HERE / "scenarios" / "masked_averaging.yaml"), None)
    with np.load(tmp_path / "out" / "cifar10_300.npz") as few:
        assert np.array_equal(few["x_train"][..., 0], whole.x_train[:300, 0])
        assert np.array_equal(few["y_train"], whole.y_train[:300]) and len(few["y_test"]) == len(whole.x_test)
    few_rows = both[both.samples == 30].set_index(["rounds", "arm"])
    for folder in (tmp_path / "out" / "masked_averaging").iterdir():
        result = simfl.open(folder)
        view, summary = result.scenario, result.summary
        if view.learning.data.name == "npz":
            row = few_rows.loc[(view.training.rounds, view.training.aggregate.name)]
            assert summary["clients"] == 10 and row.test_accuracy == pytest.approx(
                100 * summary["test_accuracy"], rel=1e-4
            )
        else:
            row = found[(found.arm == view.training.aggregate.name) & (found.seed == view.seed)].iloc[0]
            weights, data = np.load(folder / "model.npy"), Digits().load(view, Streams(view.seed))
            for x, y, accuracy in ((data.x_train, data.y_train, row.training_accuracy),
                                   (data.x_test, data.y_test, row.test_accuracy)):  # fmt: skip
                logits = x.reshape(len(x), -1) @ weights[:640].reshape(10, 64).T + weights[640:]
                assert accuracy == pytest.approx(100 * (logits.argmax(1) == y).mean(), abs=0.2)
        assert row.attack_accuracy == pytest.approx(100 * summary["membership_balanced_accuracy"], rel=1e-4)
        other = Scenario.load(folder / "scenario.yaml", ["attacks=[{name: membership, candidates: 10000}]"])
        again = run(other, tmp_path / "threshold").summary["membership_balanced_accuracy"]
        assert row.threshold_accuracy == pytest.approx(100 * again, rel=1e-4)


def test_membership_leaves_out_diverged_and_unfinished_seeds(monkeypatch):
    membership = imported(HERE / "results" / "masked_averaging" / "membership.py", monkeypatch)
    monkeypatch.setattr(membership, "simfl", SimpleNamespace(open=lambda end: SimpleNamespace(summary=end)))
    ends = {(9, arm, seed): {"diverged_round": None} for seed in range(3) for arm in ("mean", "masked", "shrunk")}
    ends[9, "masked", 1] = {"diverged_round": 4}
    del ends[9, "mean", 2]
    assert membership.usable(ends) == [(9, arm, 0) for arm in ("mean", "masked", "shrunk")]


def test_the_table_of_membership_pairs_the_seeds(monkeypatch):
    """57, 59, 58 against 60, 61, 62: 3, 2 and 4 points more, 3 ± 4.303 / 3 ** 0.5 by Student's t."""
    membership = imported(HERE / "results" / "masked_averaging" / "membership.py", monkeypatch)
    fixed = {"samples": 500, "rounds": 50, "training_accuracy": 70.0, "test_accuracy": 50.0, "threshold_accuracy": 66.0}
    rows = [{**fixed, "arm": arm, "seed": seed, "attack_accuracy": value}
            for arm, values in (("mean", (57.0, 59.0, 58.0)), ("masked", (60.0, 61.0, 62.0)))
            for seed, value in enumerate(values)]  # fmt: skip
    told = membership.markdown(pandas.DataFrame(rows))
    assert "| 500 | 50 | masked | 3 | 70.0 ± 0.0 | 50.0 ± 0.0 | 61.0 ± 2.5 | 3.0 ± 2.5 | 55 | 66.0 ± 0.0 |" in told
    assert "| 500 | 50 | mean | 3 | 70.0 ± 0.0 | 50.0 ± 0.0 | 58.0 ± 2.5 |  | 57 | 66.0 ± 0.0 |" in told


def test_some_arms_of_fedltn_leave_the_rows_of_the_others(played, tmp_path):
    (tmp_path / "high_lenet.csv").write_text("arm,megabytes\nFedAvg,1.0\n")

    def small(script):
        few = {"learning.holdout": "{validation: 0.5, test: 0.2}", "learning.evaluate.samples": "10"}
        script.BRIEF |= few | {"learning.data": "digits", "learning.model": "{name: mlp, hidden: [8]}"}
        script.TABLES = {"high_lenet": {"clients": "6", "selection.k": "5"}}
        script.CHOSEN = {name: script.CHOSEN[name] for name in ("FedLTN 0.5", "FedAvg", "LotteryFL 0.5")}

    words, file = ["--rounds", "4", "--arms"], "high_lenet_best_4_rounds"
    first = played("fedltn/best", [*words, "FedAvg", "--seeds", "2"], file, small)
    assert first[["arm", "seed", "rounds"]].values.tolist() == [["FedAvg", 0, 4], ["FedAvg", 1, 4]]
    both = played("fedltn/best", [*words, "FedLTN 0.5", "--seeds", "1"], file, small)
    assert both[["arm", "seed"]].values.tolist() == [["FedLTN 0.5", 0], ["FedAvg", 0], ["FedAvg", 1]]
    assert both[both.arm == "FedAvg"].reset_index(drop=True).equals(first)
    with pytest.raises(SystemExit, match="none of 1 runs is finished in .*; no table is written"):
        played("fedltn/best", [*words, "LotteryFL 0.5", "--seeds", "1", "--finished"], file, small)
    assert played("fedltn/best", [*words, "FedAvg", "--seeds", "1", "--finished"], file, small).equals(both)


def test_rows_of_runs_that_diverged_go_and_those_of_other_arms_stay(monkeypatch, tmp_path):
    grown = imported(HERE / "results" / "fedltn" / "tabulated.py", monkeypatch).grown
    rows = pandas.DataFrame({"arm": ["old", "a", "b", "a"], "seed": [0, 0, 0, 1], "value": [0.5, 1.5, 2.5, 3.5]})
    rows.to_csv(file := tmp_path / "table.csv", index=False)
    found = grown(file, [], [("a", 0)], ["b", "a"])
    assert found.values.tolist() == [["b", 0, 2.5], ["old", 0, 0.5], ["a", 1, 3.5]]
    assert pandas.read_csv(file).equals(found)
    again = grown(file, [rows[rows.value == 1.5]], [("a", 0)], ["b", "a"])
    assert again.value.tolist() == [2.5, 1.5, 0.5, 3.5]
