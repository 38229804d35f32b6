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
from simfl.learning.backends import BACKENDS
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
