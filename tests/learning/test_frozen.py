"""Frozen parameters: a low-rank adapter of a small language model leaves the clients, and nothing else does."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import simfl
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.learning.backends.base import BACKENDS, Sgd, TrainingTask
from simfl.learning.data.generated import MarkovText
from simfl.learning.models.build import initial
from simfl.learning.models.flat import attach, layout, parameters, values
from simfl.learning.models.flat import frozen as frozen_names
from simfl.learning.work import Work

SYMBOLS, WIDTH, RANK, CLIENTS = 6, 8, 2, 4
TRAINED = RANK * (WIDTH + SYMBOLS)


class Adapted(nn.Module):
    """Hu et al., "LoRA: low-rank adaptation of large language models", ICLR 2022."""

    def __init__(self, layer, rank=RANK):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


class Text(nn.Module):
    def __init__(self, num_classes=SYMBOLS):
        super().__init__()
        self.embed = nn.Embedding(num_classes, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.requires_grad_(False)
        self.head = Adapted(nn.Linear(WIDTH, num_classes))

    def forward(self, tokens):
        return self.head(self.lstm(self.embed(tokens))[0][:, -1])


DATA = {"name": "markov_text", "symbols": SYMBOLS, "length": 5, "characters": 25, "test_characters": 10}
TRAINING = {"learning_rate": 0.5, "batch_size": 7, "shuffle": False, "local_epochs": 2, "momentum": 0.5}
SCENARIO = {
    "clients": CLIENTS,
    "seed": 3,
    "selection": {"name": "random", "k": CLIENTS},
    "network": {"name": "star", "latency_s": 0.1},
    "training": {"name": "fedavg", "rounds": 3, **TRAINING},
    "learning": {"data": DATA, "model": "mlp", "partition": "natural"},
}


def plain_torch(net, rounds):
    """FedAvg of the adapter as a loop over modules; every client holds equally many samples."""
    data = MarkovText(**{k: v for k, v in DATA.items() if k != "name"}).load(
        SimpleNamespace(clients=CLIENTS), Streams(3)
    )
    x, y, owner = torch.from_numpy(data.x_train), torch.from_numpy(data.y_train), data.columns["client"]
    trained = [name for name, p in net.named_parameters() if p.requires_grad]
    common = {name: net.get_parameter(name).detach().clone() for name in trained}
    for _ in range(rounds):
        sums = {name: torch.zeros_like(value) for name, value in common.items()}
        for client in range(CLIENTS):
            net.load_state_dict(common, strict=False)
            optimiser = torch.optim.SGD([net.get_parameter(name) for name in trained], 0.5, 0.5)
            held = np.flatnonzero(owner == client)
            for _ in range(2):
                for first in range(0, len(held), 7):
                    chosen = held[first : first + 7]
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(net(x[chosen]), y[chosen]).backward()
                    optimiser.step()
            for name in trained:
                sums[name] += net.get_parameter(name).detach() / CLIENTS
        common = sums
    return np.concatenate([common[name].numpy().ravel() for name in trained])


@pytest.mark.parametrize("backend", ["auto", "sequential", "processes"])
def test_federated_fine_tuning_is_the_loop_over_modules(backend, tmp_path):
    torch.manual_seed(0)
    net = Text()
    result = simfl.run(SCENARIO, {"learning.model": net, "learning.backend": backend}, out=tmp_path)
    model = np.load(result.path / "model.npy")
    np.testing.assert_allclose(model, plain_torch(net, 3), atol=2e-6)
    assert model.shape == (TRAINED,) and np.abs(model[RANK * WIDTH :]).max() > 0.1  # `up` began at 0
    with open(result.path / "rounds.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert int(row["bytes_up"]) == CLIENTS * 4 * TRAINED


def test_frozen_parameters_are_bit_for_bit_the_same_after_training():
    torch.manual_seed(0)
    net = Text()
    frozen = {name: net.get_parameter(name).detach().clone() for name in frozen_names(net)}
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(rng.integers(SYMBOLS, size=size)) for size in ((9, 5), 9))
    work = Work(values(net), np.arange(9), (0, 4, 8, 9), 0, 0.5)
    for backend in ("sequential", "vmap"):
        task = TrainingTask(net, x, y, 4, Sgd(momentum=0.9, weight_decay=0.1))
        deltas, _ = BACKENDS[backend]().build(task).train([work])
        assert deltas.shape == (1, TRAINED) and deltas.any()
        for name, value in frozen.items():
            assert torch.equal(net.get_parameter(name), value), name


def test_the_vector_holds_what_is_trained():
    net = Text()
    assert [entry.name for entry in layout(net)] == ["head.down.weight", "head.up.weight"]
    assert [p.name for p in parameters(net)] == ["head.down.weight", "head.up.weight"]
    flat = torch.arange(TRAINED, dtype=torch.float32)
    before = net.head.layer.weight.clone()
    assert len(attach(net, flat)) == 2
    np.testing.assert_array_equal(values(net), flat.numpy())
    assert torch.equal(net.head.layer.weight, before)


def test_frozen_parameters_of_a_plugin_are_drawn_by_simfl():
    nets = [nn.Sequential(nn.Linear(3, 4).requires_grad_(False), nn.Linear(4, 2)) for _ in range(2)]
    starts = [initial(net, Streams(0)("model")) for net in nets]
    assert starts[0].shape == (10,) and np.array_equal(*starts)
    assert torch.equal(nets[0][0].weight, nets[1][0].weight)
    assert not np.array_equal(initial(nets[1], Streams(1)("model")), starts[0])
    assert not torch.equal(nets[0][0].weight, nets[1][0].weight)


def test_frozen_parameters_of_other_kinds_of_numbers(tmp_path):
    result = simfl.run("quickstart", {"learning.model": Double, "training.rounds": 2}, out=tmp_path)
    assert np.load(result.path / "model.npy").shape == (110,)


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 10).double().requires_grad_(False)
        self.last = nn.Linear(10, 10)

    def forward(self, x):
        return self.last(self.first(x.flatten(1).double()).float())


@pytest.mark.parametrize("backend", ["dense", "grouped"])
def test_backends_that_train_whole_layers_refuse_in_one_line(backend, tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10).requires_grad_(False), nn.Linear(10, 10))
    with pytest.raises(ScenarioError, match="'1.weight' is frozen; use vmap or sequential") as refused:
        simfl.run("quickstart", {"learning.model": net, "learning.backend": backend}, out=tmp_path)
    assert "\n" not in str(refused.value)


def test_a_frozen_model_is_another_model():
    net = nn.Linear(2, 2)
    marks = [simfl.load("quickstart", {"learning.model": net}).learning.model.fingerprint]
    net.bias.requires_grad_(False)
    marks.append(simfl.load("quickstart", {"learning.model": net}).learning.model.fingerprint)
    assert marks[0] != marks[1]
