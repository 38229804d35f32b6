"""Losses of one's own: beside plain torch loops; what rests on cross-entropy is left out or refused."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import simfl
from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.learning.backends.base import BACKENDS
from simfl.learning.models.base import Model
from simfl.learning.models.build import build
from simfl.report.measures import with_values
from simfl.report.study_reader import read_study

CLIENTS, SAMPLES, INPUTS = 4, 60, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
SPLIT = [list(range(first, first + 10)) for first in range(0, 40, 10)]


class Regression(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(in_features, 7), nn.Tanh(), nn.Linear(7, out_features))

    def forward(self, x):
        return self.layers(x)

    def loss(self, outputs, targets):
        return F.mse_loss(outputs, targets.view_as(outputs), reduction="none").mean(1)


class Parts(Regression):
    """A class for each of three places of a sample."""

    def __init__(self, in_features, num_classes):
        super().__init__(in_features, 3 * num_classes)

    def forward(self, x):
        return self.layers(x).unflatten(1, (-1, 3))

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs, targets, reduction="none").mean(1)


class Smoothed(Regression):
    def __init__(self, in_features, num_classes):
        super().__init__(in_features, num_classes)

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.2)


TARGETS = {
    "numbers": (Regression, X[:, 0] * X[:, 1] + 0.3),
    "columns": (Regression, np.stack([X[:, 0] ** 2, X.sum(axis=1)], axis=1)),
    "places": (Parts, RNG.integers(4, size=(SAMPLES, 3))),
    "classes": (Smoothed, (X[:, 0] > 0).astype(int)),
}


def scenario(model, y, **more):
    return {
        "clients": CLIENTS,
        "selection": {"name": "random", "k": CLIENTS},
        "network": {"name": "star", "latency_s": 0.1},
        "training": {"name": "fedavg", "rounds": 3, "batch_size": 4, "shuffle": False, "learning_rate": 0.2},
        "learning": {
            "data": ((X[:40], y[:40]), (X[40:], y[40:])), "model": model, "partition": SPLIT, **more,
        },
    }  # fmt: skip


def plain_torch(net, y):
    """FedAvg as a loop over modules; the losses on the test part after each round."""
    x = (X - X[:40].mean(0, dtype=np.float64)) / X[:40].std(0, dtype=np.float64)
    x, y = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(np.asarray(y))
    losses = []
    for _ in range(3):
        start = {name: value.clone() for name, value in net.state_dict().items()}
        ends = []
        for held in SPLIT:
            net.load_state_dict(start)
            optimiser = torch.optim.SGD(net.parameters(), 0.2)
            for first in range(0, 10, 4):
                chosen = held[first : first + 4]
                optimiser.zero_grad()
                net.loss(net(x[chosen]), y[chosen]).mean().backward()
                optimiser.step()
            ends.append({name: value.clone() for name, value in net.state_dict().items()})
        net.load_state_dict({name: sum(end[name] for end in ends) / CLIENTS for name in start})
        with torch.no_grad():
            losses.append(float(net.loss(net(x[40:]), y[40:]).mean()))
    return np.concatenate([value.numpy().ravel() for value in net.state_dict().values()]), losses


@pytest.mark.parametrize("backend", ["auto", "processes"])
@pytest.mark.parametrize("kind", TARGETS)
def test_training_is_the_loop_over_modules(kind, backend, tmp_path):
    model, y = TARGETS[kind]
    y = y.astype(np.float32) if y.dtype.kind == "f" else y
    torch.manual_seed(0)
    net = model(INPUTS, {"numbers": 1, "columns": 2, "places": 4, "classes": 2}[kind])
    result = simfl.run(scenario(net, y, backend=backend), out=tmp_path)
    values, losses = plain_torch(net, y)
    np.testing.assert_allclose(np.load(result.path / "model.npy"), values, atol=1e-5)
    with open(result.path / "rounds.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_allclose([float(row["test_loss"]) for row in rows], losses, rtol=1e-4)
    if kind == "classes":
        assert 0 <= result.summary["test_accuracy"] <= 1 and result.summary["no_skill_accuracy"] is not None
    else:
        assert {row["test_accuracy"] for row in rows} == {""}
        assert result.summary["test_accuracy"] is result.summary["no_skill_accuracy"] is None
    assert result.summary.get("diverged_round") is None


@pytest.mark.parametrize("kind", ["numbers", "columns", "places"])
def test_a_class_gets_the_sizes_of_the_targets(kind, tmp_path):
    model, y = TARGETS[kind]
    result = simfl.run(scenario(model, y), out=tmp_path)
    outputs = {"numbers": 1, "columns": 2, "places": 3 * 4}[kind]
    assert len(np.load(result.path / "model.npy")) == 7 * (INPUTS + 1) + 8 * outputs


def with_loss(loss):
    return type("Net", (Regression,), {"loss": loss})(INPUTS, 1)


@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        (nn.Linear(INPUTS, 1), {}, "no method loss(outputs, targets)"),
        ("logistic", {}, "no method loss(outputs, targets)"),
        (with_loss(lambda self, out, y: F.mse_loss(out[:, 0], y)), {}, "loss gives shape [] for 3 samples"),
        (with_loss(lambda self, out, y: (out - y) ** 2), {}, "loss gives shape [3, 3] for 3 samples"),
        (with_loss(lambda self, out, y: 1 / 0), {}, "division by zero"),
        (with_loss(lambda self, out, y: F.dropout(out[:, 0] - y) ** 2), {}, "global random state"),
        (Regression, {"partition": {"name": "dirichlet", "beta": 1.0}}, "splits by class"),
        (Regression, {"partition": {"name": "shards", "labels_per_client": 1}}, "splits by class"),
        (Regression, {"holdout": {"test": 0.2}}, "holdout"),
        (Regression, {"evaluate": {"per_class": True}}, "evaluate.per_class"),
        (Regression, {"evaluate": {"per_client": True}}, "evaluate.per_client"),
        *((Regression, {"backend": each}, "cross-entropy") for each in ("dense", "grouped", "vmap")),
    ],
)
def test_what_rests_on_classes_or_cross_entropy_is_refused(model, changes, said, tmp_path):
    with pytest.raises(SimflError) as refused:
        simfl.run(scenario(model, TARGETS["numbers"][1], **changes), out=tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_policy_that_reads_accuracies_needs_classes(tmp_path):
    policy = {"name": "tifl", "k": 2, "tiers": 2, "adaptive": True}
    with pytest.raises(SimflError, match="selection: is made for samples with classes"):
        simfl.run(scenario(*TARGETS["numbers"]) | {"selection": policy}, out=tmp_path)


def test_attacks_take_cross_entropy(tmp_path):
    model, y = TARGETS["classes"]
    with pytest.raises(SimflError, match="attacks"):
        simfl.run(scenario(model, y), {"attacks": ["membership"]}, out=tmp_path)


def test_finished_runs_are_not_attacked_either(tmp_path):
    model, y = TARGETS["classes"]
    learner = simfl.load(scenario(model, y))
    built = learner.learning.build(learner, Streams(0))
    with pytest.raises(SimflError, match="cross-entropy"):
        built.attack_context()


def test_tables_show_the_loss_where_there_is_no_accuracy(tmp_path):
    for kind, shown in (("numbers", {"test_loss"}), ("classes", {"test_accuracy"})):
        result = simfl.run(scenario(*TARGETS[kind]), out=tmp_path)
        names = {measure.name for measure in with_values(read_study([result.path]))}
        assert names & {"test_loss", "test_accuracy"} == shown


def test_a_steep_model_has_no_loss_of_its_own():
    class Steep(Model):
        name, steepness = "steep", 1.0

        def build(self, shape, classes):
            return Smoothed(*shape, classes)

    with pytest.raises(SimflError, match="how steep"):
        build(Steep(), (INPUTS,), 2)


def test_auto_is_sequential():
    task = SimpleNamespace(module=with_loss(lambda self, out, y: out[:, 0] - y), x=torch.zeros(1), bf16=False)
    assert BACKENDS["auto"]().choose(task).name == "sequential"


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.full(SAMPLES, np.nan), "no finite numbers"),
        (np.zeros((SAMPLES - 1, 2)), "60 samples, but labels of shape [59, 2]"),
        (np.full((SAMPLES, 2), "a"), "labels of shape [60, 2]"),
    ],
)
def test_targets_that_are_refused(y, said):
    with pytest.raises(SimflError) as refused:
        simfl.load("quickstart", {"learning.data": (X, y)})
    assert said in str(refused.value) and "\n" not in str(refused.value)


def plain_loss(name, outputs, targets):
    """Of each sample, written out."""
    outputs = outputs.reshape(targets.shape)
    off = (outputs - targets).abs()
    each = {
        "mse": off**2,
        "l1": off,
        "huber": torch.where(off < 1, off**2 / 2, off - 0.5),
        "bce": -targets * torch.log(torch.sigmoid(outputs)) - (1 - targets) * torch.log(1 - torch.sigmoid(outputs)),
    }[name]
    return each.reshape(len(targets), -1).mean(1)


@pytest.mark.parametrize("name", ["mse", "l1", "huber", "bce"])
@pytest.mark.parametrize("kind", ["numbers", "columns"])
def test_a_loss_by_name_is_that_of_the_loop(name, kind, tmp_path):
    y = TARGETS[kind][1].astype(np.float32)
    y = 1 / (1 + np.exp(-y)) if name == "bce" else y
    outputs = 1 if kind == "numbers" else 2
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(INPUTS, 7), nn.Tanh(), nn.Linear(7, outputs))
    result = simfl.run(scenario(net, y, loss=name), out=tmp_path)
    net.loss = lambda outputs, targets: plain_loss(name, outputs, targets)
    values, losses = plain_torch(net, y)
    np.testing.assert_allclose(np.load(result.path / "model.npy"), values, atol=1e-5)
    np.testing.assert_allclose(result.summary["test_loss"], losses[-1], rtol=1e-4)
    assert result.summary["test_accuracy"] is None


class Places(nn.Module):
    """As :class:`Parts`, without a loss."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    forward = Parts.forward


def test_cross_entropy_by_name_takes_classes_of_several_places(tmp_path):
    torch.manual_seed(0)
    net, y = Parts(INPUTS, 4), TARGETS["places"][1]
    models = [
        np.load(simfl.run(scenario(each, y, **more), out=tmp_path).path / "model.npy")
        for each, more in ((net, {}), (Places(net.layers), {"loss": "cross_entropy"}))
    ]
    np.testing.assert_allclose(*models, atol=1e-6)


def test_cross_entropy_of_classes_is_what_nobody_says(tmp_path):
    y = TARGETS["classes"][1]
    ours, theirs = (simfl.run(scenario("logistic", y, loss=loss), out=tmp_path) for loss in (None, "cross_entropy"))
    assert (ours.path / "model.npy").read_bytes() == (theirs.path / "model.npy").read_bytes()
    assert simfl.load(scenario("logistic", y, loss="cross_entropy")).learning.steepness < np.inf


def test_a_loss_of_numbers_has_no_bound_of_cross_entropy():
    choice = simfl.load(scenario("logistic", TARGETS["numbers"][1], loss="mse"))
    assert choice.learning.steepness == np.inf


@pytest.mark.parametrize(
    ("loss", "kind", "model", "said"),
    [
        ("mse", "classes", "logistic", "is mse, which takes numbers, and the targets are classes"),
        ("mse", "places", "logistic", "is mse, which takes numbers, and the targets are classes"),
        ("cross_entropy", "numbers", "logistic", "is cross_entropy, which takes classes, and the targets are numbers"),
        ("bce", "numbers", "logistic", "is bce, which takes numbers from 0 to 1"),
        ("mse", "numbers", Regression, "Regression has a method loss; leave one of the two out"),
        ("mse", "numbers", nn.Linear(INPUTS, 2), "cannot be trained: shape '[3]' is invalid"),
        ("rmse", "numbers", "logistic", "learning.loss"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(loss, kind, model, said, tmp_path):
    with pytest.raises(SimflError) as refused:
        simfl.run(scenario(model, TARGETS[kind][1], loss=loss), out=tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_no_accuracy_ends_a_run_without_classes(tmp_path):
    with pytest.raises(SimflError, match=r"stop\.target_accuracy: is made for samples with classes"):
        simfl.run(scenario(*TARGETS["numbers"]), {"training.stop.target_accuracy": 0.9}, out=tmp_path)


def test_an_attribute_that_is_no_method_is_no_loss(tmp_path):
    """A module that keeps a criterion for its own use is trained by cross-entropy, as without."""
    y, models = TARGETS["classes"][1], []
    for keep in (None, nn.MSELoss(), lambda outputs, targets: outputs.sum(1)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(INPUTS, 2))
        if keep is not None:
            object.__setattr__(net, "loss", keep)
        models.append(np.load(simfl.run(scenario(net, y), out=tmp_path).path / "model.npy"))
    assert np.array_equal(models[0], models[1]) and np.array_equal(models[0], models[2])


def table(folder, price):
    lines = [f"{a:.6f},{b:.6f},{p}" for (a, b), p in zip(X[:, :2], price, strict=True)]
    (folder / "table.csv").write_text("a,b,price\n" + "\n".join(lines) + "\n")
    return {"name": "csv", "path": str(folder / "table.csv"), "label": "price", "regression": True}


def of_table(folder, price, **more):
    chosen = scenario("logistic", TARGETS["numbers"][1], loss="mse", **more)
    chosen["learning"] |= {"data": table(folder, price), "partition": "iid"}
    return chosen


def test_numbers_of_a_table_are_targets_as_they_are(tmp_path):
    """A linear target is learned by a linear model; whole numbers, too, are numbers, in the unit of the table."""
    price = np.round(100 * (3 + X[:, 0] - 2 * X[:, 1])).astype(int)
    chosen = of_table(tmp_path, price)
    learning = simfl.load(chosen).learning
    data = learning.data.load(simfl.load(chosen), Streams(0))
    assert sorted(np.concatenate([data.y_train, data.y_test]).tolist()) == sorted(price.tolist())
    assert data.y_train.dtype == np.float32 and not data.classified and "label: price (numbers)" in data.notes[-1]
    result = simfl.run(chosen, {"training.rounds": 30}, out=tmp_path)
    assert result.summary["test_loss"] < 1 < np.var(price) / 1000  # rounding to units is all that is left


@pytest.mark.parametrize(
    ("price", "said"),
    [
        (["cheap"] * SAMPLES, "column 'price' holds texts, and regression: true takes numbers"),
        ([1e39] * SAMPLES, "column 'price' has a number that 32 bits cannot hold"),
        (["1.5"] * (SAMPLES - 1) + [""], "row 60 has no label"),
        (["1.5"] * (SAMPLES - 1) + ["inf"], "no finite number"),
    ],
)
def test_a_label_that_is_no_number_is_refused(price, said, tmp_path):
    with pytest.raises(SimflError) as refused:
        simfl.run(of_table(tmp_path, price), out=tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def with_metrics(metrics):
    return type("Net", (Regression,), {"metrics": metrics})(INPUTS, 1)


def test_metrics_of_a_module_stand_in_tables_and_summary(tmp_path):
    """They are of all test samples at once, which no mean of batches would be."""

    def metrics(self, outputs, targets):
        error = outputs[:, 0] - targets
        return {"r2": 1 - (error**2).sum() / ((targets - targets.mean()) ** 2).sum(), "worst": error.abs().max().item()}

    y = TARGETS["numbers"][1].astype(np.float32)
    torch.manual_seed(0)
    net = with_metrics(metrics)
    result = simfl.run(scenario(net, y), out=tmp_path)
    with open(result.path / "evaluation.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["round"], row["name"]) for row in rows] == [
        (str(t), name) for t in range(3) for name in ("metric_r2", "metric_worst")
    ]
    plain_torch(net, y)
    x = (X - X[:40].mean(0, dtype=np.float64)) / X[:40].std(0, dtype=np.float64)
    error = net(torch.from_numpy(x[40:].astype(np.float32))).detach().numpy()[:, 0] - y[40:]
    r2 = 1 - (error**2).sum() / ((y[40:] - y[40:].mean()) ** 2).sum()
    np.testing.assert_allclose(result.summary["metric_r2"], r2, rtol=1e-3)
    np.testing.assert_allclose(result.summary["metric_worst"], np.abs(error).max(), rtol=1e-3)
    assert {"metric_r2", "metric_worst"} <= {measure.name for measure in with_values(read_study([result.path]))}


def test_a_metric_that_ends_without_a_number_has_none(tmp_path):
    """Not that of an earlier round; the last call is of the last round."""
    calls = []

    def metrics(self, outputs, targets):
        calls.append(1)
        return {"late": float("nan") if len(calls) == 4 else 1.0}

    result = simfl.run(scenario(with_metrics(metrics), TARGETS["numbers"][1]), out=tmp_path)
    assert len(calls) == 4 and result.summary["metric_late"] is None


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (lambda self, outputs, targets: 1.0, "gives no mapping of names to numbers"),
        (lambda self, outputs, targets: {"a": "much"}, "gives no mapping of names to numbers"),
        (lambda self, outputs, targets: {"a": outputs}, "gives no mapping of names to numbers"),
        (lambda self, outputs, targets: 1 / 0, "division by zero"),
        (lambda self, outputs, targets: {"mean error": 1.0}, "metrics names 'mean error'"),
    ],
)
def test_metrics_that_are_none_are_refused_before_the_run(metrics, said, tmp_path):
    with pytest.raises(SimflError) as refused:
        simfl.run(scenario(with_metrics(metrics), TARGETS["numbers"][1]), out=tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not list(tmp_path.rglob("rounds.csv*"))
