"""Attacks on models that are partly frozen: what is trained leaves the clients, and what is frozen is known."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import simfl
from simfl.attacks.inversion import samples_of
from simfl.attacks.matching import alignments
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams

CLIENTS, PIXELS, CLASSES = 8, 144, 4


class Partly(nn.Sequential):
    """Two linear layers, one of which is frozen."""

    def __init__(self, in_features, num_classes, frozen, width):
        super().__init__(nn.Flatten(), nn.Linear(in_features, width), nn.ReLU(), nn.Linear(width, num_classes))
        self[frozen].requires_grad_(False)


FIRST, LAST = (partial(Partly, frozen=layer, width=width) for layer, width in ((1, PIXELS), (3, CLASSES)))


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """Eight samples, so that each of eight clients holds one."""
    rng, file = np.random.default_rng(1), tmp_path_factory.mktemp("eight") / "eight.npz"
    x, y = rng.random((48, 12, 12), dtype=np.float32), np.arange(48) % CLASSES
    np.savez(file, x_train=x[:CLIENTS], y_train=y[:CLIENTS], x_test=x[CLIENTS:], y_test=y[CLIENTS:])
    return {
        "clients": CLIENTS, "selection": "all", "secagg": "plain",
        "network": {"name": "star", "latency_s": 0.1},
        "training": {"name": "fedavg", "rounds": 3, "local_steps": 5, "learning_rate": 0.05, "weighting": "equal"},
        "learning": {"data": {"name": "npz", "path": str(file)}, "model": "mlp"},
    }  # fmt: skip


def attacked(scenario, model, attack, folder):
    return simfl.run(scenario, {"learning.model": model, "attacks": [attack]}, out=folder).summary


def test_activations_behind_a_frozen_layer_are_not_taken_for_samples(scenario, tmp_path):
    """The layer behind it has as many inputs as a sample has pixels."""
    with pytest.raises(ScenarioError, match="does not begin with a trained linear layer"):
        attacked(scenario, FIRST, {"name": "inversion", "method": "analytic"}, tmp_path)


def test_samples_are_read_off_a_first_layer_before_a_frozen_one(scenario, tmp_path):
    wide = partial(Partly, frozen=3, width=64)
    summary = attacked(scenario, wide, {"name": "inversion", "method": "analytic"}, tmp_path)
    assert summary["inversion_psnr"] > 80 > 20 > summary["inversion_guess_psnr"]


def test_labels_are_not_read_off_a_hidden_layer(scenario, tmp_path):
    """The last trained layer has as many units as there are classes."""
    with pytest.raises(ScenarioError, match="labels off the last bias"):
        attacked(scenario, LAST, {"name": "inversion", "steps": 2}, tmp_path)


class Halved(nn.Sequential):
    """A layer with as many inputs as a sample has pixels, which are halved before."""

    def __init__(self, in_features, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(in_features, num_classes))

    def forward(self, x):
        return super().forward(x / 2)


class Normed(nn.Sequential):
    """The second parameter is as long as a bias, and none."""

    def __init__(self, in_features, num_classes):
        super().__init__(
            nn.Flatten(), nn.Linear(in_features, 9, bias=False), nn.LayerNorm(9), nn.Linear(9, num_classes)
        )


@pytest.mark.parametrize("model", [Halved, Normed])
def test_only_weights_and_biases_that_see_samples_tell_them(model, scenario):
    knowledge, _ = learner(scenario, model).attack_context()
    with pytest.raises(ScenarioError, match="use cosine"):
        samples_of(np.ones(knowledge.trained_size, dtype=np.float32), knowledge)


def learner(scenario, model):
    known = simfl.load(scenario, {"learning.model": model})
    return known.learning.build(known, Streams(0))


ATTACKS = [
    *({"name": "membership", "statistic": statistic, "candidates": 10} for statistic in ("loss", "logits")),
    *({"name": "membership", "statistic": name, "game": "in_client"} for name in ("fedmia", "fedmia_gradient")),
    {"name": "inversion", "steps": 20, "samples": 1},
    {"name": "least_squares"},
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attacks_end_with_numbers(attack, scenario, tmp_path):
    plain, partly = (attacked(scenario, model, attack, tmp_path / name) for name, model in (("a", "mlp"), ("b", FIRST)))
    found = {name for name, value in plain.items() if value is not None}
    assert {name for name, value in partly.items() if value is not None} >= {
        name for name in found if name.startswith(("loss_", "logits_", "fedmia", "inversion_", "least_", "measured_"))
    }


def test_gradients_are_those_of_what_is_trained(scenario):
    one = learner(scenario, FIRST)
    knowledge, truth = one.attack_context()
    rng, start = np.random.default_rng(8), one.initial()
    update = rng.normal(size=len(start)).astype(np.float32)
    told = alignments(knowledge, start[None], update[None], truth.x[:3], truth.y[:3])
    last = knowledge.module[3]
    assert len(start) == PIXELS * CLASSES + CLASSES
    for n in range(3):
        weight, bias = (torch.from_numpy(part.copy()).requires_grad_() for part in np.split(start, [PIXELS * CLASSES]))
        hidden = torch.relu(knowledge.module[1](torch.from_numpy(truth.x[[n]]).flatten(1))).detach()
        logits = hidden @ weight.view(last.weight.shape).T + bias
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(truth.y[[n]]))
        slope = torch.cat(torch.autograd.grad(loss, [weight, bias]))
        cosine = nn.functional.cosine_similarity(-slope, torch.from_numpy(update), dim=0)
        assert told[0, n] == pytest.approx(float(cosine), abs=1e-5)
