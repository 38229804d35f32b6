"""Every backend gives what a plain torch loop gives, or is refused before the run: over modules of one's own."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from simfl.learning.backends.base import BACKENDS, Sgd, TrainingTask
from simfl.learning.backends.trial import refusal
from simfl.learning.models.dropout import Masks, key_dropout, trial_pass
from simfl.learning.models.flat import attach, layout, values
from simfl.learning.work import Work

torch.set_num_threads(1)
WIDTH, CLASSES = 6, 3


class Around(nn.Module):
    """Layers with something done to what goes in."""

    def __init__(self, change, *layers):
        super().__init__()
        self.change, self.layers = change, nn.Sequential(*layers or dense())

    def forward(self, x):
        return self.layers(self.change(x))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.again.weight = self.first.weight

    def forward(self, x):
        return self.last(self.again(self.first(x).relu()).relu())


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.used(x)


class Shifted(nn.Sequential):
    """Looks like layers one behind the other, and is not."""

    def forward(self, x):
        return super().forward(x - x.mean(0))


class Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def dense(layer=nn.Linear):
    return layer(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES)


class Adapted(nn.Module):
    """A frozen layer with a trained correction of rank 2 (Hu et al., "LoRA", ICLR 2022)."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, CLASSES, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def frozen(module, *names):
    for name in names:
        module.get_parameter(name).requires_grad_(False)
    return module


def attention(x):
    return torch.softmax(x @ x.T, dim=1) @ x


def same_layer_twice():
    layer = nn.Linear(WIDTH, WIDTH)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def with_norm(norm):
    return nn.Sequential(nn.Linear(WIDTH, 8), norm, nn.ReLU(), nn.Linear(8, CLASSES))


APART = {
    "dense": lambda: nn.Sequential(*dense()),
    "layer norm": lambda: with_norm(nn.LayerNorm(8)),
    "group norm": lambda: with_norm(nn.GroupNorm(2, 8)),
    "dropout": lambda: with_norm(nn.Dropout(0.4)),
    "tied": Tied,
    "unused": Unused,
    "subclass": lambda: nn.Sequential(*dense(Twice)),
    "layer twice": same_layer_twice,
    "adapter": Adapted,
    "first layer frozen": lambda: frozen(nn.Sequential(*dense()), "0.weight", "0.bias"),
    "last bias frozen": lambda: frozen(nn.Sequential(*dense()), "2.bias"),
    "frozen and tied": lambda: frozen(Tied(), "first.weight"),
    "frozen norm": lambda: frozen(with_norm(nn.LayerNorm(8)), "1.weight", "1.bias"),
}
TOGETHER = {
    "statistics": lambda: with_norm(nn.BatchNorm1d(8)),
    "batch norm": lambda: with_norm(nn.BatchNorm1d(8, track_running_stats=False)),
    "mean": lambda: Around(lambda x: x - x.mean(0)),
    "detached mean": lambda: Around(lambda x: x - x.detach().mean(0)),
    "weak mean": lambda: Around(lambda x: x - 0.05 * x.mean(0)),
    "largest": lambda: Around(lambda x: x / x.abs().amax(0)),
    "attention": lambda: Around(attention),
    "neighbour": lambda: Around(lambda x: x + x.roll(1, 0)),
    "size of the batch": lambda: Around(lambda x: x * len(x)),
    "overridden": lambda: Shifted(*dense()),
    "frozen norm with statistics": lambda: frozen(with_norm(nn.BatchNorm1d(8)), "1.weight", "1.bias"),
}
SETTINGS = {
    "plain": Sgd(),
    "decay": Sgd(weight_decay=0.1),
    "momentum": Sgd(momentum=0.9, weight_decay=0.1),
    "clipped": Sgd(clip_norm=0.5),
}


def made(build, sgd, batch=4):
    torch.manual_seed(1)
    module = build().train()
    key_dropout(module)
    with torch.no_grad(), trial_pass(module):
        module(torch.zeros(2, WIDTH))
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            layer.reset_running_stats()
    attach(module, torch.from_numpy(values(module)))
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.normal(0.5, 1, (40, WIDTH)).astype(np.float32))
    return TrainingTask(module, x, torch.from_numpy(rng.integers(CLASSES, size=40)), batch, sgd)


def works(start, batch, sizes):
    first = 0
    for i, n in enumerate(sizes):
        bounds = (*range(0, n, batch), n)
        yield Work(start, np.arange(first, first + n), bounds, 0, 0.1, dropout=partial(np.random.default_rng, i))
        first += n


def plain_torch(build, sgd, work):
    """Updates of a loop as people write it, with torch's own optimiser."""
    task = made(build, sgd)
    module, masks, rng = task.module, Masks(task.module), work.dropout()
    attach(module, torch.from_numpy(work.start.copy()))
    optimiser = torch.optim.SGD(module.parameters(), 0.1, sgd.momentum, weight_decay=sgd.weight_decay)
    for first, last in zip(work.bounds, work.bounds[1:], strict=False):
        if masks.layers:
            masks.set_masks([torch.from_numpy(mask) for mask in masks.draw(rng, last - first)])
        chosen = work.order[first:last]
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(task.x[chosen]), task.y[chosen]).backward()
        if sgd.clip_norm:
            nn.utils.clip_grad_norm_(module.parameters(), sgd.clip_norm)
        optimiser.step()
    return values(module) - work.start


def differences(names, batch, sizes):
    """Of each backend that is not refused, by how much it is off the loop, relative to the update."""
    for name in names:
        build = {**APART, **TOGETHER}[name]
        for sgd in SETTINGS.values():
            task = made(build, sgd, min(batch, max(sizes)))
            assert refusal(task) is None
            start = values(task.module)
            wanted = np.stack([plain_torch(build, sgd, work) for work in works(start, batch, sizes)])
            for backend in ("sequential", "dense", "grouped", "vmap", "auto"):
                task = made(build, sgd, min(batch, max(sizes)))
                if BACKENDS[backend]().refuses(task) is None:
                    got, _ = BACKENDS[backend]().build(task).train(list(works(start, batch, sizes)))
                    yield name, backend, np.abs(got - wanted).max() / np.abs(wanted).max()


@pytest.mark.parametrize(("batch", "sizes"), [(4, (12, 12)), (4, (10, 7)), (4, (3, 2)), (8, (20, 11))])
@pytest.mark.parametrize("name", [*APART, *TOGETHER])
def test_every_backend_is_the_loop_or_refused(name, batch, sizes):
    off = list(differences([name], batch, sizes))
    assert {"sequential", "auto"} <= {backend for _, backend, _ in off}
    assert max(each for *_, each in off) < 1e-4, off


@pytest.mark.parametrize("sizes", [(1,), (5, 1)])
@pytest.mark.parametrize("name", APART)
def test_steps_of_one_sample(name, sizes):
    assert max(each for *_, each in differences([name], 4, sizes)) < 1e-4


def test_with_the_instructions_of_other_processors():
    """The same choices and updates without AVX-512."""
    code = (
        "from tests.learning.test_trial import *\n"
        "off = list(differences([*APART, *TOGETHER], 4, (10, 7)))\n"
        "assert max(each for *_, each in off) < 1e-4, off\n"
        "print(sorted({row[:2] for row in off}))"
    )
    names = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    ran = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | more)
           for more in ({}, names)]  # fmt: skip
    assert ran[0].stdout == ran[1].stdout != "", ran[1].stderr


@pytest.mark.parametrize("name", TOGETHER)
def test_samples_that_influence_one_another_are_not_trained_side_by_side(name):
    for backend in ("vmap", "dense"):
        assert BACKENDS[backend]().refuses(made(TOGETHER[name], Sgd())) is not None
    assert BACKENDS["auto"]().choose(made(TOGETHER[name], Sgd())).name == "sequential"


def test_those_that_do_not_may_be():
    fits = {name for name, build in APART.items() if BACKENDS["vmap"]().refuses(made(build, Sgd())) is None}
    assert fits == set(APART)
    assert BACKENDS["vmap"]().refuses(made(Unused, Sgd(weight_decay=0.1))) is not None  # torch would leave it alone
    assert BACKENDS["auto"]().choose(made(APART["dense"], Sgd())).name == "dense"
    assert BACKENDS["auto"]().choose(made(APART["layer twice"], Sgd())).name == "sequential"


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)
        self.register_buffer("sum", torch.zeros(WIDTH))

    def forward(self, x):
        self.sum += x.detach().sum(0)
        return self.layer(x)


class Moving(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.ones(WIDTH), requires_grad=False)

    def forward(self, x):
        self.scale.mul_(0.9)
        return self.layer(x * self.scale)


@pytest.mark.parametrize(
    ("build", "sizes", "said"),
    [
        (TOGETHER["batch norm"], (1,), "more than 1 value"),
        (lambda: Around(lambda x: x.squeeze(0)), (1,), "cannot be trained"),
        (lambda: Around(lambda x: x / x.std(0)), (1,), "no finite gradient"),
        (lambda: Around(torch.Tensor.detach, nn.Flatten()), (3, 2), "cannot be trained"),
        (Counting, (3, 2), "buffer 'sum'"),
        (Moving, (3, 2), "frozen parameter 'scale'"),
        (lambda: frozen(Unused(), "used.weight", "used.bias"), (3, 2), "cannot be trained"),
    ],
)
def test_what_cannot_be_trained_is_refused(build, sizes, said):
    assert said in refusal(made(build, Sgd()), sizes)


def test_a_step_leaves_what_the_loss_does_not_depend_on():
    task = made(Unused, Sgd(momentum=0.9, weight_decay=0.1))
    entries = {entry.name: entry for entry in layout(task.module)}
    (work,) = works(values(task.module), 4, (9,))
    delta = BACKENDS["sequential"]().build(task).train([work])[0][0]
    for name, entry in entries.items():
        part = delta[entry.start : entry.start + int(np.prod(entry.shape))]
        assert part.any() != name.startswith("spare")
