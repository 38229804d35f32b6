"""Models, their initial weights, evaluation scores and the label histogram."""

import csv
import re
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from simfl.cli.data import command
from simfl.clients.client_agents import Agents
from simfl.core.errors import ScenarioError
from simfl.core.registration.family_index import undone
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.learner import SupervisedLearner
from simfl.learning.models.base import MODELS, Model
from simfl.learning.models.build import build, initial
from simfl.learning.models.flat import attach, layout, size, views
from simfl.learning.partitions.base import Split
from simfl.learning.scores import class_scores, client_scores, matthews, overall_scores
from simfl.scenario import Scenario
from tests.learning.test_supervised import build as learner_of


def count(name, shape, classes=10, **fields):
    return size(layout(build(MODELS[name](**fields), shape, classes)))


def test_parameter_counts():
    assert count("cnn_mnist", (1, 28, 28)) == 1_663_370  # McMahan et al. 2017, section 3
    assert count("lenet5", (3, 32, 32)) == (75 + 1) * 6 + (150 + 1) * 16 + 401 * 120 + 121 * 84 + 85 * 10
    assert count("lenet5", (1, 28, 28)) == 61_706  # padded to the 32 x 32 of LeCun et al. 1998
    widths = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    convolutions = sum(9 * a * b + b for a, b in zip(widths, widths[1:], strict=False))
    assert count("vgg11", (3, 32, 32), 100) == convolutions + 513 * 100
    widths = [3, 16, 32, 64, 64, 128, 128, 128, 128]
    convolutions = sum(9 * a * b + b for a, b in zip(widths, widths[1:], strict=False))
    assert count("vgg11", (3, 32, 32), width=0.25) == convolutions + 129 * 10
    assert count("resnet18_gn", (3, 32, 32)) == 11_173_962  # the well-known figure for ResNet-18 on CIFAR-10
    assert count("mlp", (1, 28, 28), hidden=(200,)) == 785 * 200 + 201 * 10
    assert count("logistic", (14,), 2) == 30
    small = (25 + 1) * 32 + (25 * 32 + 1) * 64 + (64 * 4 * 4 + 1) * 10
    assert count("multiround_mnist", (1, 28, 28)) == count("multiround_mnist", (1, 28, 28), dropout=False) == small
    assert small == 62_346  # the public code of arXiv 2106.03328
    assert count("multiround_cifar", (3, 32, 32)) == count("lenet5", (3, 32, 32)) == 62_006


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 16, 40), (1, 17, 33), (4, 64, 35)])
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"python"}))  # which is built by what it names
def test_the_size_that_a_model_says_without_torch_is_its_size(name, shape):
    model = MODELS[name]()
    try:
        said = model.parameters(shape, 7)
    except ScenarioError as refusal:
        with pytest.raises(ScenarioError, match=re.escape(refusal.message)):
            model.build(shape, 7)
    else:
        assert said == size(layout(model.build(shape, 7)))


@pytest.mark.parametrize("name", ["cnn_mnist", "lenet5", "vgg11", "resnet18_gn"])
def test_samples_that_are_too_small_are_refused_without_torch(name):
    for shape in ((64,), (1, 3, 3)):
        with pytest.raises(ScenarioError, match=f"{name} takes images of at least"):
            MODELS[name]().parameters(shape, 10)


def test_a_model_larger_than_the_machine_is_one_line():
    with pytest.raises(ScenarioError, match="mlp of .* parameters would take about .* GiB of memory; this machine has"):
        build(MODELS["mlp"](hidden=(100_000, 100_000)), (64,), 10)


def test_flat_vectors_and_views_are_the_parameters():
    module = build(MODELS["mlp"](hidden=(5,)), (3,), 2)
    flat = torch.arange(float(size(layout(module))))
    parameters = attach(module, flat)
    assert torch.equal(nn.utils.parameters_to_vector(parameters), flat)
    flat += 1
    assert parameters[0][0, 0] == 1 and torch.equal(views(flat, layout(module))[-1], parameters[-1])
    stacked = torch.stack([flat, 2 * flat])
    assert torch.equal(views(stacked, layout(module))[1][1], 2 * parameters[1])


def test_initial_weights_follow_torchs_own_distributions():
    module = build(MODELS["cnn_mnist"](), (1, 28, 28), 10)
    ours = views(torch.from_numpy(initial(module, np.random.default_rng(5))), layout(module))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = list(MODELS["cnn_mnist"]().build((1, 28, 28), 10).parameters())
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine.abs().max() == pytest.approx(float(reference.detach().abs().max()), rel=0.25)
        if mine.numel() > 500:
            assert mine.std() == pytest.approx(float(reference.detach().std()), rel=0.1)
    again = initial(module, np.random.default_rng(5))
    assert np.array_equal(torch.cat([part.flatten() for part in ours]).numpy(), again)


def test_deep_networks_start_with_he_weights_and_plain_norms():
    module = build(MODELS["resnet18_gn"](), (3, 8, 8), 10)
    parts = dict(
        zip(
            [entry.name for entry in layout(module)],
            views(torch.from_numpy(initial(module, np.random.default_rng(0))), layout(module)),
            strict=True,
        )
    )
    assert parts["10.body.3.weight"].var() == pytest.approx(2 / (512 * 9), rel=0.02)
    assert (parts["1.weight"] == 1).all() and (parts["1.bias"] == 0).all()


def test_building_a_model_leaves_torchs_random_state_alone():
    before = torch.get_rng_state()
    build(MODELS["lenet5"](), (1, 28, 28), 10)
    assert torch.equal(before, torch.get_rng_state())


class Choice(Model):
    name = "mine"

    def __init__(self, *layers):
        self.layers = layers

    def build(self, shape, classes):
        return nn.Sequential(*self.layers)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None)], "averages all batches.*momentum"),
        ([nn.Linear(4, 3), nn.AlphaDropout(0.5)], r"random state.*torch\.nn\.Dropout"),
        ([nn.Linear(4, 3), nn.Dropout(1.0)], "drops everything"),
        ([nn.Linear(4, 2)], r"output of shape \[2, 2\] for 2 samples in 3 classes"),
        ([nn.Linear(5, 3)], r"samples of shape \[4\]"),
    ],
)
def test_unfit_modules_are_refused_with_the_reason(layers, message):
    with pytest.raises(ScenarioError, match=message) as error:
        build(Choice(*layers), (4,), 3)
    assert "\n" not in str(error.value)


def test_anybodys_module_can_be_a_model():
    """What a package registers through the entry point group simfl.model."""

    class Tanh:
        """A small network of another kind."""

        def build(self, shape, classes):
            return nn.Sequential(nn.Linear(*shape, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, classes))

    data = {"name": "synthetic", "shape": [6], "classes": 3, "samples": 200}
    deltas = {}
    with undone():
        MODELS("tanh")(dataclass(frozen=True)(Tanh))
        for backend in ("auto", "vmap"):
            learner, _ = learner_of(4, data=data, model="tanh", backend=backend)
            deltas[backend] = learner.train([Job(0, 1, 0, 0.0), Job(1, 3, 0, 0.0)]).deltas
        assert deltas["auto"].any() and np.allclose(deltas["auto"], deltas["vmap"], atol=1e-5)
        with pytest.raises(ScenarioError, match="dense cannot train this model"):
            learner_of(4, data=data, model="tanh", backend="dense")


def test_unknown_parameters_need_a_rule_of_their_own():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.factor

    class DrawnScale(Scale):
        def draw(self, name, shape, rng):
            return rng.uniform(2, 3, shape)

    with pytest.raises(ScenarioError, match="'factor'.*draw"):
        initial(build(Choice(nn.Linear(4, 3), Scale()), (4,), 3), np.random.default_rng(0))
    drawn = initial(build(Choice(nn.Linear(4, 3), DrawnScale()), (4,), 3), np.random.default_rng(0))
    assert (drawn[-3:] >= 2).all()


def test_convolutional_models_refuse_features():
    with pytest.raises(ScenarioError, match="mlp takes any"):
        build(MODELS["cnn_mnist"](), (14,), 10)
    with pytest.raises(ScenarioError, match="at least 32 x 32"):
        build(MODELS["vgg11"](), (1, 28, 28), 10)
    assert MODELS["resnet18_gn"](groups=24).check(None)[0][0] == "groups"


def test_scores_against_sklearn():
    from sklearn.metrics import matthews_corrcoef, recall_score

    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(2, size=200), rng.integers(2, size=200)
    assert matthews(predicted, labels) == pytest.approx(matthews_corrcoef(labels, predicted))
    assert matthews(np.zeros(5, int), np.array([0, 1, 0, 1, 1])) == 0
    assert "test_mcc" in overall_scores(np.ones(200), predicted, labels, 2)
    labels, predicted = rng.integers(4, size=300), rng.integers(4, size=300)
    scores = class_scores(rng.random(300), predicted, labels, 5)
    recall = recall_score(labels, predicted, average=None)
    np.testing.assert_allclose([scores[f"test_accuracy_class_{i}"] for i in range(4)], recall)
    assert np.isnan(scores["test_loss_class_4"]) and "test_mcc" not in overall_scores(labels, labels, labels, 5)


def test_client_scores_by_hand():
    scores = client_scores(np.array([1.0] * 5 + [0.5, 0.0] + [1.0] * 5), np.arange(1, 13), "accuracy")
    assert client_scores(np.empty(0), np.empty(0, dtype=int), "accuracy") == {}
    assert all(
        np.isnan(value) for value in client_scores(np.array([1.0, np.nan]), np.array([1, 2]), "accuracy").values()
    )
    assert scores["client_accuracy_min"] == 0
    assert scores["client_accuracy_worst_decile"] == 0.25  # two of twelve clients
    assert scores["client_accuracy_mean"] == pytest.approx((0 + 0.5 + 10) / 12)
    assert scores["client_accuracy_weighted"] == pytest.approx((78 - 6 - 7 + 3) / 78)  # the sixth has 6 samples


def test_evaluation_on_request():
    learner, _ = learner_of(6, evaluate={"per_class": True, "per_client": True})
    model = np.zeros(learner.dimension, dtype=np.float32)
    model[640 + 4] = 5.0  # every sample is called a 4
    learner.put(1, model)
    scores = learner.evaluator.evaluate(1)
    assert [scores[f"test_accuracy_class_{i}"] for i in range(10)] == [float(i == 4) for i in range(10)]
    share = [np.mean(learner.data.y_train[learner.partition[i]] == 4) for i in range(6)]
    assert scores["client_accuracy_mean"] == pytest.approx(np.mean(share))
    assert scores["client_accuracy_min"] == min(share) == scores["client_accuracy_worst_decile"]
    plain, _ = learner_of(6)
    plain.put(1, model)
    assert set(plain.evaluator.evaluate(1)) == {"test_loss", "test_accuracy"}
    assert plain.evaluator.evaluate(1)["test_loss"] == scores["test_loss"]


def test_histogram_counts():
    labels = np.array([0, 1, 1, 2, 0, 2])
    split = Split.of([np.array([0, 1, 2]), np.array([], int), np.array([5])])
    counts = split.label_counts(labels, 3)
    assert counts.tolist() == [[1, 2, 0], [0, 0, 0], [0, 0, 1]]


def test_the_data_command_shows_and_draws(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "clients: 9\nselection: {name: random, k: 3}\ntraining: {name: fedavg, rounds: 1}\n"
        "learning: {data: digits, partition: {name: dirichlet, beta: 0.3}, model: mlp}\n"
    )
    result = CliRunner().invoke(command, [str(scenario), "--json", "--out", str(tmp_path / "h.svg")])
    assert result.exit_code == 0, result.output
    assert '"training_samples": 1438' in result.stdout and '"clients": 9' in result.stdout
    assert (tmp_path / "h.svg").stat().st_size > 5000
    assert CliRunner().invoke(command, [str(scenario), "--out", str(tmp_path / "again.svg")]).exit_code == 0
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "h.svg").read_bytes()
    assert CliRunner().invoke(command, [str(scenario), "--out", str(tmp_path / "h.xyz")]).exit_code
    with open(tmp_path / "h.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["samples"]) for row in rows) == 1438 and len(rows) == 9
    played = Scenario.load(scenario)
    learner = SupervisedLearner(played.learning, played, Streams(played.seed))
    held = np.loadtxt(tmp_path / "h-samples.csv", delimiter=",", skiprows=1, dtype=int)
    for client in range(9):
        assert (held[held[:, 0] == client, 1] == learner.partition[client]).all()
    assert len(held) == 1438 and rows[0]["4"] == str((learner.data.y_train[learner.partition[0]] == 4).sum())


def test_a_graphics_processor_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    from simfl.core.errors import MissingError

    with pytest.raises(MissingError, match="device: cpu"):
        learner_of(device="cuda")


def test_augmenting_features_is_refused():
    from simfl.learning.base import LEARNING

    choice = LEARNING.of({"data": "synthetic", "model": "mlp", "augment": {"flip": True}})
    rule = SimpleNamespace(client=None)
    with pytest.raises(ScenarioError, match="no images"):
        choice.build(SimpleNamespace(clients=3, training=rule, agents=Agents()), Streams(0))


def test_the_pages_on_learning_and_backends_hold():
    """The scenario is valid, and they name every choice."""
    from pathlib import Path

    from simfl.learning.backends.base import BACKENDS
    from simfl.learning.data.base import DATA
    from simfl.learning.partitions.base import PARTITIONS
    from simfl.scenario import Scenario
    from simfl.training.optimisers import SERVER_OPTIMISERS

    folder = Path(__file__).resolve().parents[2] / "docs" / "how-to"
    page, backends = ((folder / f"{name}.md").read_text() for name in ("learning", "backends"))
    scenario = Scenario.parse(page.split("```yaml\n")[1].split("```")[0])
    assert scenario.learning.augment.crop == 2 and scenario.training.client.mu == 0.01
    for family in (DATA, PARTITIONS, MODELS, BACKENDS, SERVER_OPTIMISERS):
        there = backends if family is BACKENDS else page
        assert [name for name, cls in family.items() if name not in there and cls.__module__.startswith("simfl.")] == []
